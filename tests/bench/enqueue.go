package main

import (
	"fmt"
	"strings"

	"osqueue/tests/measure"
)

const (
	oneJob           = `{"type":"bench","payload":{"n":1}}`
	singleClients    = 64
	manyClients      = 256
	batchClients     = 4
	manyBatchClients = 16
	jobsInBatch      = 100
)

// batchOf returns a body with n jobs.
func batchOf(n int) []byte {
	return []byte(`{"jobs":[` + strings.Repeat(oneJob+",", n-1) + oneJob + `]}`)
}

// enqueueOne and enqueueBatch are steps of legacy clients against a broker.
func enqueueOne(host string) step             { return legacy.enqueueOne(host) }
func enqueueBatch(host string, jobs int) step { return legacy.enqueueBatch(host, jobs) }

func (d dialect) enqueueOne(host string) step {
	request := d.post(host, "/v1/jobs", []byte(oneJob))
	return func(c *conn) (int, error) {
		_, err := c.do(request)
		return 1, err
	}
}

func (d dialect) enqueueBatch(host string, jobs int) step {
	request := d.post(host, "/v1/jobs/batch", batchOf(jobs))
	return func(c *conn) (int, error) {
		_, err := c.do(request)
		return jobs, err
	}
}

// variant is a number of clients and the form of their requests.
type variant struct {
	clients int
	dialect dialect
	aim     float64 // jobs per second; 0 means none
}

func (b *bench) sequential() error {
	for _, d := range []dialect{legacy, strict} {
		err := b.withBrokers("sequential", func(br *brokers) error {
			l, err := br.load(1, b.duration, d.enqueueOne(br.leader.HTTP))
			if err != nil {
				return err
			}
			p50 := l.took.At(50)
			name := fmt.Sprintf("one enqueue, %v, ", d)
			f := figure{Section: "sequential", Name: name + "p50", Value: measure.Milliseconds(p50), Unit: "ms", Cost: l.cost}
			if b.bareP50 > 0 {
				ratio := float64(p50) / float64(b.bareP50)
				f.Beside = times(ratio) + " the bare commit"
				f = f.atMost(3, "× bare", ratio)
			}
			b.report.add(f)
			b.report.add(figure{Section: "sequential", Name: name + "p99", Value: measure.Milliseconds(l.took.At(99)), Unit: "ms"})
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) single() error {
	return b.variants("single", 1, b.bareRate, []variant{
		{singleClients, legacy, 10_000}, {singleClients, strict, 0}, {manyClients, strict, 0},
	})
}

func (b *bench) batch() error {
	return b.variants("batch", jobsInBatch, b.bareBatchRate, []variant{
		{batchClients, legacy, 150_000}, {batchClients, strict, 0}, {manyBatchClients, strict, 0},
	})
}

// variants measures variants of the load, each on a cluster of its own. Each call enqueues the same number of
// jobs.
func (b *bench) variants(section string, jobs int, bare float64, all []variant) error {
	for _, w := range all {
		err := b.withBrokers(section, func(br *brokers) error {
			one := w.dialect.enqueueOne(br.leader.HTTP)
			if jobs > 1 {
				one = w.dialect.enqueueBatch(br.leader.HTTP, jobs)
			}
			l, err := br.load(w.clients, b.duration, one)
			if err != nil {
				return err
			}
			name := fmt.Sprintf("%d clients × %d, %v", w.clients, jobs, w.dialect)
			f := figure{Section: section, Name: name, Value: l.rate, Unit: "jobs/s", Beside: besideBare(l.rate, bare), Cost: l.cost}
			if w.aim > 0 {
				f = f.atLeast(w.aim)
			}
			b.report.add(f)
			for _, p := range []float64{50, 99} {
				b.report.add(figure{
					Section: section, Name: fmt.Sprintf("%s, one call, p%g", name, p), Value: measure.Milliseconds(l.took.At(p)), Unit: "ms",
				})
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// besideBare compares a rate with the bare one of the same number of callers, if that was
// measured.
func besideBare(rate, bare float64) string {
	if bare == 0 {
		return ""
	}
	return times(rate/bare) + " bare"
}
