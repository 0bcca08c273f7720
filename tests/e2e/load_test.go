package e2e

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/model"
)

// load is producers and workers that continue through faults, and the record of their answers.
type load struct {
	t      *testing.T
	c      *cluster.Cluster
	ledger *model.Ledger
	client *client.Client
	stop   context.CancelFunc // ends the producers
	quit   context.CancelFunc // ends the workers
	wg     sync.WaitGroup     // producers
	wwg    sync.WaitGroup     // workers
	sent   atomic.Int64
	object bool // half of the writes ask for level object
}

const (
	loadProducers = 3
	loadWorkers   = 3
	loadLease     = 3 * time.Second
)

func startLoad(t *testing.T, c *cluster.Cluster) *load {
	t.Helper()
	return startLoadInto(t, c, model.NewLedger(), false)
}

// startLoadInto is like startLoad, but continues an existing record. With object, half of the
// writes wait for the bucket.
func startLoadInto(t *testing.T, c *cluster.Cluster, ledger *model.Ledger, object bool) *load {
	t.Helper()
	producing, stop := context.WithCancel(context.Background())
	working, quit := context.WithCancel(context.Background())
	l := &load{t: t, c: c, ledger: ledger, client: c.NewClient(), stop: stop, quit: quit, object: object}
	for range loadProducers {
		l.wg.Go(func() { l.produce(producing) })
	}
	for i := range loadWorkers {
		l.wwg.Go(func() { l.work(working, fmt.Sprintf("w%d", i)) })
	}
	t.Cleanup(func() {
		stop()
		quit()
		l.wg.Wait()
		l.wwg.Wait()
		l.client.Close()
	})
	return l
}

func (l *load) produce(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n++ {
		id := uuid.NewString()
		e, err := l.client.Enqueue(l.level(ctx, n), client.NewJob{ID: id, Type: "load", Payload: []byte(`{"n":1}`)})
		l.ledger.Enqueued(id, err == nil)
		if err == nil && e.Committed == client.AckObject {
			l.ledger.EnqueuedSafely(id)
		}
		l.sent.Add(1)
		pause(ctx, 5*time.Millisecond)
	}
}

// level returns the context of the n-th write.
func (l *load) level(ctx context.Context, n int) context.Context {
	if l.object && n%2 == 0 {
		return client.WithAck(ctx, client.AckObject)
	}
	return ctx
}

func (l *load) work(ctx context.Context, name string) {
	for ctx.Err() == nil {
		jobs, err := l.client.Claim(ctx, client.ClaimOptions{Worker: name, Max: 5, Wait: 300 * time.Millisecond, Lease: loadLease})
		if err != nil {
			pause(ctx, 20*time.Millisecond)
			continue
		}
		for i, j := range jobs {
			l.ledger.Claimed(j.ID, j.Token)
			l.complete(l.level(ctx, i), name, j)
		}
	}
}

func (l *load) complete(ctx context.Context, worker string, j client.ClaimedJob) {
	var r client.Receipt
	lease := client.Lease{JobID: j.ID, Worker: worker, Token: j.Token}
	if err := l.client.Complete(client.WithReceipt(ctx, &r), lease, []byte(`"done"`)); err != nil {
		return
	}
	l.ledger.Completed(j.ID, j.Token)
	if r.Committed() == client.AckObject {
		l.ledger.CompletedSafely(j.ID, j.Token)
	}
}

// abandon ends the load at once, because no node is left to answer.
func (l *load) abandon() {
	l.stop()
	l.quit()
	l.wg.Wait()
	l.wwg.Wait()
}

// waitSent lets the load run until n more enqueues have been tried.
func (l *load) waitSent(n int64) {
	l.t.Helper()
	goal := l.sent.Load() + n
	l.c.Eventually(30*time.Second, "the load to go on", func() error {
		if got := l.sent.Load(); got < goal {
			return fmt.Errorf("%d of %d jobs sent", got, goal)
		}
		return nil
	})
}

// finish stops the producers, lets the workers finish all jobs, and checks the record.
func (l *load) finish() {
	l.t.Helper()
	jobs := l.drain()
	if err := l.ledger.Check(jobs); err != nil {
		l.t.Fatal(err)
	}
	l.t.Logf("%d jobs acknowledged, %d completions acknowledged, %d jobs at the end", l.ledger.Acked(), l.ledger.CompletedCount(), len(jobs))
}

// drain stops the producers, lets the workers finish all jobs, and returns all jobs.
func (l *load) drain() map[string]string {
	l.t.Helper()
	l.stop()
	l.wg.Wait()
	l.c.Eventually(60*time.Second, "every job to end", func() error {
		s, err := l.client.Stats(l.c.Context(5 * time.Second))
		if err != nil {
			return err
		}
		if s.Unclaimed+s.InProgress+s.Scheduled > 0 {
			return fmt.Errorf("%d waiting, %d running, %d scheduled", s.Unclaimed, s.InProgress, s.Scheduled)
		}
		return nil
	})
	l.quit()
	l.wwg.Wait()
	return allJobs(l.t, l.c)
}

// allJobs lists every job of the cluster with its status.
func allJobs(t *testing.T, c *cluster.Cluster) map[string]string {
	t.Helper()
	jobs := make(map[string]string)
	for j, err := range c.Client.Jobs(c.Context(30*time.Second), client.ListOptions{Statuses: []string{v1.StatusAll}, PageSize: 500}) {
		if err != nil {
			t.Fatal(err)
		}
		jobs[j.ID] = j.Status
	}
	return jobs
}

// submit enqueues n jobs and returns their ids.
func submit(t *testing.T, c *cluster.Cluster, n int) []string {
	t.Helper()
	batch := make([]client.NewJob, n)
	for i := range batch {
		batch[i] = client.NewJob{Type: "t", Payload: []byte(fmt.Sprint(i))}
	}
	b, err := c.Client.EnqueueBatch(c.Context(20*time.Second), batch)
	if err != nil {
		t.Fatal(err)
	}
	return b.JobIDs
}

// mustHave checks that every id is among the cluster's jobs.
func mustHave(t *testing.T, c *cluster.Cluster, ids []string) {
	t.Helper()
	jobs := allJobs(t, c)
	var errs []error
	for _, id := range ids {
		if _, ok := jobs[id]; !ok {
			errs = append(errs, fmt.Errorf("job %s is lost", id))
		}
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}
