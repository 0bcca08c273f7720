package main

import (
	"strings"

	"osqueue/tests/cluster"
)

const (
	oneJob       = `{"type":"bench","payload":{"n":1}}`
	jobsInBatch  = 100
	batchClients = 4
)

// batchOf is a body with n jobs.
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
	return b.withBrokers("sequential", func(_ *cluster.Cluster, leader string) error {
		_, took, err := measure(leader, 1, b.duration, enqueueOne(leader))
		if err != nil {
			return err
		}
		p50 := took.at(50)
		f := figure{Section: "sequential", Name: "one enqueue, p50", Value: ms(p50), Unit: "ms"}
		if b.bareP50 > 0 {
			ratio := float64(p50) / float64(b.bareP50)
			f.Beside = times(ratio) + " the bare commit"
			f = f.atMost(3, "× bare", ratio)
		}
		b.report.add(f)
		b.report.add(figure{Section: "sequential", Name: "one enqueue, p99", Value: ms(took.at(99)), Unit: "ms"})
		return nil
	})
}

func (b *bench) single() error {
	return b.withBrokers("single", func(_ *cluster.Cluster, leader string) error {
		rate, took, err := measure(leader, 64, b.duration, enqueueOne(leader))
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "single", Name: "64 clients, one job a call", Value: rate, Unit: "jobs/s", Beside: b.besideBare(rate),
		}.atLeast(10_000))
		b.report.add(figure{Section: "single", Name: "64 clients, one enqueue, p99", Value: ms(took.at(99)), Unit: "ms"})
		return nil
	})
}

func (b *bench) batch() error {
	return b.withBrokers("batch", func(_ *cluster.Cluster, leader string) error {
		rate, took, err := measure(leader, batchClients, b.duration, enqueueBatch(leader, jobsInBatch))
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "batch", Name: "4 clients, 100 jobs a call", Value: rate, Unit: "jobs/s", Beside: b.besideBare(rate),
		}.atLeast(150_000))
		b.report.add(figure{Section: "batch", Name: "one call, p99", Value: ms(took.at(99)), Unit: "ms"})
		return nil
	})
}

// besideBare compares a rate with that of 64 callers of the bare commit.
func (b *bench) besideBare(rate float64) string {
	if b.bareRate == 0 {
		return ""
	}
	return times(rate/b.bareRate) + " 64 bare callers"
}
