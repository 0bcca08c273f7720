package main

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/client"
)

// sdkStep is the operation that a caller of the Go client repeats.
type sdkStep func(ctx context.Context, c *client.Client, worker string) error

// sdkVariant is a step, the jobs that it makes, and the numbers of callers that repeat it.
type sdkVariant struct {
	name    string
	step    sdkStep
	jobs    int
	callers []int
}

func sdkVariants() []sdkVariant {
	return []sdkVariant{
		{"enqueue", sdkEnqueue, 1, []int{64, 256}},
		{"enqueue, claim, complete", sdkLife, 1, []int{64, 256}},
		{"batches of 100", sdkBatch, jobsInBatch, []int{batchClients, manyBatchClients}},
	}
}

// sdk measures callers that share one Go client, over streams and over HTTP in turns.
func (b *bench) sdk() error {
	return b.withBrokers("sdk", func(br *brokers) error {
		for _, one := range sdkVariants() {
			for _, callers := range one.callers {
				if err := b.compareProtocols(br, callers, &one); err != nil {
					return err
				}
			}
		}
		return nil
	})
}

// compareProtocols reports the rates of both protocols.
func (b *bench) compareProtocols(br *brokers, callers int, v *sdkVariant) error {
	protocols := []client.Protocol{client.ProtocolStream, client.ProtocolHTTP}
	measured, err := b.inTurns(len(protocols), func(side int) (rate float64, spent *cost, err error) {
		p := protocols[side]
		spent, err = costOf(br.Cluster, br.leader, func() (err error) {
			rate, err = sdkRate(client.Config{Servers: br.Servers(), Protocol: p}, callers, b.turn(), v.step)
			rate *= float64(v.jobs)
			return err
		})
		if err != nil {
			err = fmt.Errorf("%d callers, %s, %s: %w", callers, v.name, p, err)
		}
		return rate, spent, err
	})
	if err != nil {
		return err
	}
	for i, p := range protocols {
		s := measured[i]
		beside := s.cost().perJob(s.rate())
		if p != client.ProtocolHTTP {
			beside += ", " + times(s.rateOf(measured[1])) + " HTTP"
		}
		b.report.add(figure{
			Section: "sdk", Name: fmt.Sprintf("%d callers, %s, %s", callers, v.name, p), Value: s.rate(), Unit: "jobs/s",
			Beside: beside, Cost: s.cost(),
		})
	}
	return nil
}

// sdkRate lets callers of one client repeat a step.
func sdkRate(cfg client.Config, callers int, d time.Duration, step sdkStep) (perSecond float64, err error) {
	c, err := client.New(cfg)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	return shareClient(c, callers, d, step)
}

// shareClient lets callers of a client repeat a step.
func shareClient(c *client.Client, callers int, d time.Duration, step sdkStep) (perSecond float64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), d+time.Minute)
	defer cancel()
	var done atomic.Int64
	var loops sync.WaitGroup
	errs := make(chan error, callers)
	began := time.Now()
	for i := range callers {
		worker := fmt.Sprintf("bench-%d", i)
		loops.Go(func() {
			for time.Since(began) < d {
				if err := step(ctx, c, worker); err != nil {
					errs <- err
					return
				}
				done.Add(1)
			}
		})
	}
	loops.Wait()
	close(errs)
	return float64(done.Load()) / time.Since(began).Seconds(), <-errs
}

func sdkEnqueue(ctx context.Context, c *client.Client, _ string) error {
	_, err := c.Enqueue(ctx, client.NewJob{Type: "sdk", Payload: []byte(`{"n":1}`)})
	return err
}

func sdkBatch(ctx context.Context, c *client.Client, _ string) error {
	jobs := make([]client.NewJob, jobsInBatch)
	for i := range jobs {
		jobs[i] = client.NewJob{Type: "sdk", Payload: []byte(`{"n":1}`)}
	}
	_, err := c.EnqueueBatch(ctx, jobs)
	return err
}

// sdkLife enqueues one job, and claims and completes one, which may be another caller's.
func sdkLife(ctx context.Context, c *client.Client, worker string) error {
	if _, err := c.Enqueue(ctx, client.NewJob{Type: "life", Payload: []byte(`{"n":1}`)}); err != nil {
		return err
	}
	jobs, err := c.Claim(ctx, client.ClaimOptions{Worker: worker, Types: []string{"life"}, Max: 1, Wait: time.Second})
	if err != nil || len(jobs) == 0 {
		return err
	}
	return c.Complete(ctx, jobs[0].Lease(), nil)
}
