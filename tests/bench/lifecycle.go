package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// lifecycle enqueues, claims and completes jobs, 100 per call and one per call.
func (b *bench) lifecycle() error {
	err := b.withBrokers("lifecycle", func(br *brokers) error {
		return b.addLifecycle(br, batchClients, "4 clients × 100, legacy", throughLife(br.leader.HTTP))
	})
	if err != nil {
		return err
	}
	for _, clients := range []int{singleClients, manyClients} {
		err := b.withBrokers("lifecycle", func(br *brokers) error {
			return b.addLifecycle(br, clients, fmt.Sprintf("%d clients × 1, strict", clients), throughLifeAlone(br.leader.HTTP))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (b *bench) addLifecycle(br *brokers, clients int, name string, s step) error {
	l, err := br.load(clients, b.duration, s)
	if err != nil {
		return err
	}
	b.report.add(figure{
		Section: "lifecycle", Name: "enqueue, claim, complete, " + name, Value: l.rate, Unit: "jobs/s",
		Beside: besideBare(l.rate, b.bareBatchRate), Cost: l.cost,
	})
	return nil
}

// throughLifeAlone enqueues, claims and completes one job with three calls.
func throughLifeAlone(host string) step {
	enqueue, claim := strict.enqueueOne(host), claimOne(host)
	return func(c *conn) (int, error) {
		if _, err := enqueue(c); err != nil {
			return 0, err
		}
		jobs, err := claim(c)
		if errors.Is(err, errEmpty) {
			return 0, nil // another client has the job
		}
		return jobs, err
	}
}

// errEmpty means that no job is available.
var errEmpty = errors.New("no job is available")

// claimOne claims one job and completes it, with a call each. Without a job it returns errEmpty.
func claimOne(host string) step {
	request := strict.post(host, "/v1/jobs/claim", []byte(`{"workerId":"bench"}`))
	return func(c *conn) (int, error) {
		answer, err := c.do(request)
		if err != nil {
			return 0, err
		}
		var got completedJob
		if err := json.Unmarshal(answer, &got); err != nil {
			return 0, err
		}
		if got.JobID == "" {
			return 0, errEmpty
		}
		done := fmt.Appendf(nil, `{"workerId":"bench","token":%d}`, got.Token)
		_, err = c.do(strict.post(host, "/v1/jobs/"+got.JobID+"/complete", done))
		return 1, err
	}
}

// drainLimit bounds the drain.
const drainLimit = 5 * time.Minute

// drain lets clients claim and complete the jobs of a full queue, one per call, until it is
// empty.
func (b *bench) drain() error {
	return b.withBrokers("drain", func(br *brokers) error {
		if err := fill(br.leader.HTTP, b.drainJobs); err != nil {
			return err
		}
		var jobs int64
		var took time.Duration
		cost, err := costOf(br.Cluster, br.leader, func() (err error) {
			began := time.Now()
			jobs, err = emptyQueue(br.leader.HTTP, singleClients)
			took = time.Since(began)
			return err
		})
		if err != nil {
			return err
		}
		b.report.add(figure{
			Section: "drain", Name: fmt.Sprintf("%d jobs, %d clients × 1, strict", jobs, singleClients),
			Value: float64(jobs) / took.Seconds(), Unit: "jobs/s", Cost: cost,
		})
		return nil
	})
}

// emptyQueue completes all jobs and returns their number.
func emptyQueue(host string, clients int) (int64, error) {
	end := time.Now().Add(drainLimit)
	var all atomic.Int64
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for range clients {
		wg.Go(func() {
			_, jobs, err := repeat(host, end, claimOne(host))
			all.Add(int64(jobs))
			if !errors.Is(err, errEmpty) {
				errs <- err // nil: the limit is over
			}
		})
	}
	wg.Wait()
	close(errs)
	return all.Load(), <-errs
}

// taken has the fields of a claim's answer that a completion needs.
type taken struct {
	Jobs []struct {
		ID    string `json:"jobId"`
		Token uint64 `json:"token"`
	} `json:"jobs"`
}

type completion struct {
	WorkerID string         `json:"workerId"`
	Jobs     []completedJob `json:"jobs"`
}

type completedJob struct {
	JobID string `json:"jobId"`
	Token uint64 `json:"token"`
}

func throughLife(host string) step {
	enqueue := enqueueBatch(host, jobsInBatch)
	return func(c *conn) (int, error) {
		if _, err := enqueue(c); err != nil {
			return 0, err
		}
		return claimAndComplete(c, jobsInBatch)
	}
}
