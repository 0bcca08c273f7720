package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"osqueue/tests/measure"
)

// The size of the shallow queue, and the way to fill the deep one.
const (
	shallow     = 1000
	fillClients = 4
	fillBatch   = 1000
)

// depth measures whether the number of queued jobs slows down new ones.
func (b *bench) depth() error {
	return b.withBrokers("depth", func(br *brokers) error {
		before, err := b.atDepth(br, shallow, shallow)
		if err != nil {
			return err
		}
		after, err := b.atDepth(br, b.deep, b.deep-shallow)
		if err != nil {
			return err
		}
		b.addDepth(shallow, before, before)
		b.addDepth(b.deep, after, before)
		b.report.add(figure{Section: "depth", Name: "filling, 4 clients, 1000 jobs a call", Value: after.fill, Unit: "jobs/s"})
		return b.addFlush(br)
	})
}

// latencies are the latencies of one client at one depth.
type latencies struct {
	enqueue, claim measure.Samples
	fill           float64 // jobs a second, while the queue was filled
}

// atDepth adds jobs, and measures at the resulting depth. For each enqueued job one is claimed,
// so that the depth is constant.
func (b *bench) atDepth(br *brokers, depth, add int) (*latencies, error) {
	l := new(latencies)
	host := br.leader.HTTP
	begin := time.Now()
	if err := fill(host, add); err != nil {
		return nil, fmt.Errorf("fill up to %d: %w", depth, err)
	}
	l.fill = float64(add) / time.Since(begin).Seconds()
	enqueue := enqueueOne(host)
	claim := legacy.post(host, "/v1/jobs/claim", []byte(`{"workerId":"bench"}`))
	_, _, err := repeatFor(host, 1, b.duration, func(c *conn) (int, error) {
		t0 := time.Now()
		if _, err := enqueue(c); err != nil {
			return 0, err
		}
		t1 := time.Now()
		if _, err := c.do(claim); err != nil {
			return 0, err
		}
		l.enqueue, l.claim = append(l.enqueue, t1.Sub(t0)), append(l.claim, time.Since(t1))
		return 1, nil
	})
	return l, err
}

func (b *bench) addDepth(jobs int, l, before *latencies) {
	for _, of := range []struct {
		name       string
		now, first measure.Samples
	}{{"enqueue", l.enqueue, before.enqueue}, {"claim", l.claim, before.claim}} {
		for _, p := range []float64{50, 99} {
			now := of.now.At(p)
			f := figure{Section: "depth", Name: fmt.Sprintf("%s at %d jobs, p%g", of.name, jobs, p), Value: measure.Milliseconds(now), Unit: "ms"}
			if l != before {
				ratio := float64(now) / float64(of.first.At(p))
				f.Beside = times(ratio) + " shallow"
				if p == 50 {
					f = f.atMost(2, "× shallow", ratio)
				}
			}
			b.report.add(f)
		}
	}
}

// addFlush reports the lag of the bucket behind a deep queue.
func (b *bench) addFlush(br *brokers) error {
	status, err := br.leader.Status()
	if err != nil {
		return err
	}
	b.report.add(figure{
		Section: "depth", Name: fmt.Sprintf("bucket behind at %d jobs", b.deep), Value: float64(status.LagMs) / 1000, Unit: "s",
		Beside: documentSize(br.Bucket()) + status.FlushError,
	})
	return nil
}

// documentSize returns the size of the document, if the bucket is a directory.
func documentSize(bucket string) string {
	dir, ok := strings.CutPrefix(bucket, "file://")
	if !ok {
		return ""
	}
	info, err := os.Stat(filepath.Join(dir, "queue.json"))
	if err != nil {
		return ""
	}
	return fmt.Sprintf("queue.json: %.0f kB", float64(info.Size())/1e3)
}

// fill adds at least the given number of jobs to the queue.
func fill(host string, jobs int) error {
	var wg sync.WaitGroup
	errs := make(chan error, fillClients)
	calls := (jobs + fillBatch - 1) / fillBatch
	for i := range fillClients {
		wg.Go(func() {
			n := calls / fillClients
			if i < calls%fillClients {
				n++
			}
			if err := repeatTimes(host, n, enqueueBatch(host, fillBatch)); err != nil {
				errs <- err
			}
		})
	}
	wg.Wait()
	close(errs)
	return <-errs
}

func times(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + "×" }
