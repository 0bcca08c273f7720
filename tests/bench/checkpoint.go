package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"osqueue/client"
	"osqueue/tests/measure"
)

const (
	checkpointCallers = 8
	checkpointPayload = 1500            // bytes that cannot be compressed: the log soon outgrows the checkpoint
	checkpointTurns   = 12              // measurements of --duration: a few checkpoints
	checkpointWindow  = 2 * time.Second // before the end of a checkpoint: it is written
	calmBefore        = 6 * time.Second // before the end: it is not yet written
	calmAfter         = time.Second     // after the end
)

// timedCall is one enqueue.
type timedCall struct {
	at   time.Time
	took time.Duration
}

// checkpoint measures enqueues into a deep queue, while the leader writes checkpoints of it and
// between them.
func (b *bench) checkpoint() error {
	return b.withBrokers("checkpoint", func(br *brokers) error {
		if err := fill(br.leader.HTTP, b.deep); err != nil {
			return err
		}
		c, err := client.New(client.Config{Servers: br.Servers()})
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(context.Background(), checkpointTurns*b.duration)
		defer cancel()
		calls := make([][]timedCall, checkpointCallers)
		errs := make([]error, checkpointCallers)
		var callers sync.WaitGroup
		for i := range calls {
			callers.Go(func() { calls[i], errs[i] = enqueueUntil(ctx, c) })
		}
		ends := checkpointEnds(ctx, br)
		callers.Wait()
		if err := errors.Join(errs...); err != nil {
			return err
		}
		b.addCheckpoints(slices.Concat(calls...), ends)
		return nil
	})
}

// enqueueUntil enqueues until ctx ends.
func enqueueUntil(ctx context.Context, c *client.Client) (calls []timedCall, err error) {
	for ctx.Err() == nil {
		random := make([]byte, checkpointPayload)
		_, _ = rand.Read(random) // it never fails
		payload, err := json.Marshal(random)
		if err != nil {
			return nil, err
		}
		at := time.Now()
		if _, err := c.Enqueue(context.Background(), client.NewJob{Type: "large", Payload: payload}); err != nil {
			return nil, err
		}
		calls = append(calls, timedCall{at, time.Since(at)})
	}
	return calls, nil
}

// checkpointEnds watches the leader, and returns when the document named another checkpoint.
func checkpointEnds(ctx context.Context, br *brokers) (ends []time.Time) {
	last := ""
	for ; ctx.Err() == nil; time.Sleep(20 * time.Millisecond) {
		s, err := br.leader.Status()
		if err != nil || s.Document == nil || s.Document.CheckpointLSN == last {
			continue
		}
		if last != "" {
			ends = append(ends, time.Now())
		}
		last = s.Document.CheckpointLSN
	}
	return ends
}

// addCheckpoints compares the calls at the end of a checkpoint with those far from any.
func (b *bench) addCheckpoints(calls []timedCall, ends []time.Time) {
	var all, during, calm measure.Samples
	for _, c := range calls {
		far := true
		for _, end := range ends {
			before := end.Sub(c.at)
			if before > 0 && before <= checkpointWindow {
				during = append(during, c.took)
			}
			far = far && (before > calmBefore || before < -calmAfter)
		}
		if far {
			calm = append(calm, c.took)
		}
		all = append(all, c.took)
	}
	if len(during) == 0 || len(calm) == 0 {
		b.report.add(figure{
			Section: "checkpoint", Name: "enqueue, p99", Value: measure.Milliseconds(all.At(99)), Unit: "ms",
			Beside: "no comparison: the run is too short",
		})
		return
	}
	for _, p := range []float64{50, 99} {
		b.report.add(figure{Section: "checkpoint", Name: fmt.Sprintf("enqueue between checkpoints, p%g", p), Value: measure.Milliseconds(calm.At(p)), Unit: "ms"})
		ratio := float64(during.At(p)) / float64(calm.At(p))
		f := figure{
			Section: "checkpoint", Name: fmt.Sprintf("enqueue during a checkpoint, p%g", p), Value: measure.Milliseconds(during.At(p)), Unit: "ms",
			Beside: times(ratio) + " without",
		}
		b.report.add(f.atMost(2, "× without", ratio))
	}
}
