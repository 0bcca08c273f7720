package main

import (
	"fmt"
	"strconv"
	"sync"

	"osqueue/tests/cluster"
)

// The shallow queue, and how the deep one is filled.
const (
	shallow     = 1000
	fillClients = 4
	fillBatch   = 1000
)

// depth measures whether the number of queued jobs costs those that come.
func (b *bench) depth() error {
	return b.withBrokers("depth", func(_ *cluster.Cluster, leader string) error {
		var before, after latencies
		for _, at := range []struct {
			jobs int
			into *latencies
		}{{shallow, &before}, {b.deep, &after}} {
			if err := fill(leader, at.jobs); err != nil {
				return err
			}
			if err := at.into.measure(leader, b); err != nil {
				return err
			}
			b.addDepth(at.jobs, at.into, &before)
		}
		return nil
	})
}

// latencies are one client's, at one depth.
type latencies struct{ enqueue, claim samples }

func (l *latencies) measure(host string, b *bench) (err error) {
	if _, l.enqueue, err = measure(host, 1, b.duration, enqueueOne(host)); err != nil {
		return err
	}
	request := post(host, "/v1/jobs/claim", []byte(`{"workerId":"bench"}`))
	_, l.claim, err = measure(host, 1, b.duration, func(c *conn) (int, error) {
		_, err := c.do(request)
		return 1, err
	})
	return err
}

func (b *bench) addDepth(jobs int, l, before *latencies) {
	for _, of := range []struct {
		name       string
		now, first samples
	}{{"enqueue", l.enqueue, before.enqueue}, {"claim", l.claim, before.claim}} {
		f := figure{
			Section: "depth", Name: fmt.Sprintf("%s at %d jobs, p50", of.name, jobs), Value: ms(of.now.at(50)), Unit: "ms",
			Beside: fmt.Sprintf("p99 %.2f ms", ms(of.now.at(99))),
		}
		if l != before {
			ratio := float64(of.now.at(50)) / float64(of.first.at(50))
			f.Beside += ", p50 " + times(ratio) + " shallow"
			f = f.atMost(2, "× shallow", ratio)
		}
		b.report.add(f)
	}
}

// fill brings the queue to a number of jobs, more or less.
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

func repeatTimes(host string, n int, s step) error {
	c, err := dial(host)
	if err != nil {
		return err
	}
	defer c.close()
	for range n {
		if _, err := s(c); err != nil {
			return err
		}
	}
	return nil
}

func times(ratio float64) string { return strconv.FormatFloat(ratio, 'f', 2, 64) + "×" }
