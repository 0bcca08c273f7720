package main

import (
	"strings"

	"osqueue/tests/measure"
)

const (
	oneJob        = `{"type":"bench","payload":{"n":1}}`
	singleClients = 64
	batchClients  = 4
	jobsInBatch   = 100
)

// batchOf returns a body with n jobs.
func batchOf(n int) []byte {
	return []byte(`{"jobs":[` + strings.Repeat(oneJob+",", n-1) + oneJob + `]}`)
}

// enqueueOne and enqueueBatch are steps against a broker.
func enqueueOne(host string) step {
	request := post(host, "/v1/jobs", []byte(oneJob))
	return func(c *conn) (int, error) {
		_, err := c.do(request)
		return 1, err
	}
}

func enqueueBatch(host string, jobs int) step {
	request := post(host, "/v1/jobs/batch", batchOf(jobs))
	return func(c *conn) (int, error) {
		_, err := c.do(request)
		return jobs, err
	}
}

func (b *bench) sequential() error {
	return b.withBrokers("sequential", func(br *brokers) error {
		l, err := br.load(1, b.duration, enqueueOne(br.leader.HTTP))
		if err != nil {
			return err
		}
		p50 := l.took.At(50)
		f := figure{Section: "sequential", Name: "one enqueue, p50", Value: measure.Milliseconds(p50), Unit: "ms", Cost: l.cost}
		if b.bareP50 > 0 {
			ratio := float64(p50) / float64(b.bareP50)
			f.Beside = times(ratio) + " the bare commit"
			f = f.atMost(3, "× bare", ratio)
		}
		b.report.add(f)
		b.report.add(figure{Section: "sequential", Name: "one enqueue, p99", Value: measure.Milliseconds(l.took.At(99)), Unit: "ms"})
		return nil
	})
}

func (b *bench) single() error {
	return b.withBrokers("single", func(br *brokers) error {
		l, err := br.load(singleClients, b.duration, enqueueOne(br.leader.HTTP))
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "single", Name: "64 clients, one job a call", Value: l.rate, Unit: "jobs/s",
			Beside: besideBare(l.rate, b.bareRate), Cost: l.cost,
		}.atLeast(10_000))
		b.report.add(figure{Section: "single", Name: "64 clients, one enqueue, p50", Value: measure.Milliseconds(l.took.At(50)), Unit: "ms"})
		b.report.add(figure{Section: "single", Name: "64 clients, one enqueue, p99", Value: measure.Milliseconds(l.took.At(99)), Unit: "ms"})
		return nil
	})
}

func (b *bench) batch() error {
	return b.withBrokers("batch", func(br *brokers) error {
		l, err := br.load(batchClients, b.duration, enqueueBatch(br.leader.HTTP, jobsInBatch))
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "batch", Name: "4 clients, 100 jobs a call", Value: l.rate, Unit: "jobs/s",
			Beside: besideBare(l.rate, b.bareBatchRate), Cost: l.cost,
		}.atLeast(150_000))
		b.report.add(figure{Section: "batch", Name: "one call, p50", Value: measure.Milliseconds(l.took.At(50)), Unit: "ms"})
		b.report.add(figure{Section: "batch", Name: "one call, p99", Value: measure.Milliseconds(l.took.At(99)), Unit: "ms"})
		return nil
	})
}

// besideBare compares a rate with the bare one of the same number of callers, if that was
// measured.
func besideBare(rate, bare float64) string {
	if bare == 0 {
		return ""
	}
	return times(rate/bare) + " bare"
}
