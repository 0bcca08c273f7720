package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/leader"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// bench is a replica to which the test applies entries, with the hubs that depend on it.
type bench struct {
	t     *testing.T
	node  *Node
	index uint64
	now   int64
}

func newBench(t *testing.T, events int) *bench {
	t.Helper()
	n := new(Node)
	n.replica = newReplica(flush.NewUnflushedLog(1<<20), func(err error) { t.Error(err) })
	n.ctx, n.cancel = context.WithCancel(t.Context())
	t.Cleanup(n.cancel)
	n.ready, n.ends, n.events = notify.NewReady(), notify.NewEnded(), notify.NewHistory(events)
	n.tokens = notify.NewTokens()
	n.leader = leader.New(leader.Config{}, leader.Effects{Read: n.replica.read})
	n.replica.changed, n.replica.restored = n.changed, n.restored
	return &bench{t: t, node: n, now: 1_700_000_000_000}
}

// apply applies one log entry.
func (b *bench) apply(ms ...*fsmpb.Mutation) []fsm.Result {
	b.t.Helper()
	b.index++
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: b.now, Mutations: ms})
	if err != nil {
		b.t.Fatal(err)
	}
	a := b.node.replica.apply(&raft.Log{Index: b.index, Term: 1, Data: data})
	if a.err != nil {
		b.t.Fatal(a.err)
	}
	for i, r := range a.results {
		if !r.Code.Done() {
			b.t.Fatalf("mutation %d: %s", i, r.Code)
		}
	}
	return a.results
}

func (b *bench) enqueue(jobType string, n int) {
	b.t.Helper()
	op := &fsmpb.Enqueue{}
	for i := range n {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: fmt.Sprintf("%s-%d-%d", jobType, b.index, i), Type: jobType})
	}
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

func claimOf(worker string, n uint32, types ...string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: worker, Max: n, Types: types}}}
}

func completeOf(j *fsm.Job) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
		Worker: j.Execution().Worker, Lease: &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token},
	}}}
}

func wants(t *testing.T, result <-chan error, want error) {
	t.Helper()
	select {
	case err := <-result:
		if !errors.Is(err, want) {
			t.Fatalf("got %v, want %v", err, want)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("it waits on")
	}
}

func TestWaitEnded(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 2) // t-0-0 and t-0-1
	waiting := func(ctx context.Context, id string) <-chan error {
		result := make(chan error, 1)
		go func() { result <- b.node.WaitEnded(ctx, id) }()
		return result
	}
	wants(t, waiting(t.Context(), "nobody"), nil)
	first := waiting(t.Context(), "t-0-0")
	ctx, cancel := context.WithCancel(t.Context())
	second := waiting(ctx, "t-0-1")
	jobs := b.apply(claimOf("w", 2))[0].Jobs
	b.apply(completeOf(jobs[0]))
	wants(t, first, nil)
	wants(t, waiting(t.Context(), "t-0-0"), nil)
	cancel()
	wants(t, second, context.Canceled)
	third := waiting(t.Context(), "t-0-1")
	b.node.cancel()
	wants(t, third, ErrClosed)
}

// If a thousand claims wait and ten jobs arrive, ten claims are tried and get them.
func TestNoThunderingHerd(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	const sleepers, jobs = 1000, 10
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var woken, claimed atomic.Int64
	var wg sync.WaitGroup
	for range sleepers {
		wg.Go(func() {
			for {
				a, err := n.AwaitClaim(ctx, nil, claimOf("w", 1, "t"))
				if err != nil {
					return
				}
				if a.Woken {
					woken.Add(1)
					a.Result, _, _ = n.Propose(ctx, claimOf("w", 1, "t"))
				}
				if len(a.Result.Jobs) == 1 {
					claimed.Add(1)
					return
				}
			}
		})
	}
	l.eventually("all to sleep", func() bool { return n.ready.Sleeping() == sleepers })
	var ids []string
	for i := range jobs {
		ids = append(ids, fmt.Sprint(i))
	}
	l.enqueue(n, ids...)
	l.eventually("all jobs to be claimed", func() bool { return claimed.Load() == jobs })
	cancel()
	wg.Wait()
	// A rescan may happen in between, several times on a slow machine, and wake sleepers
	// that find no job.
	if got := woken.Load(); got > sleepers/5 {
		t.Fatalf("%d woke up for %d jobs", got, jobs)
	}
}

func TestAllNodesHaveTheSameEvents(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	all := l.start("n", 3, nil)
	leader := l.leader(all...)
	for i := range 20 {
		l.enqueue(leader, fmt.Sprintf("a%d", i), fmt.Sprintf("b%d", i))
		l.claim(leader, "w")
	}
	lsn := l.enqueue(leader, "last")
	var first []notify.Event
	for _, m := range all {
		if err := m.WaitApplied(t.Context(), lsn); err != nil {
			t.Fatal(err)
		}
		events, lost := m.Events().Since(notify.EventID{}, 1000)
		for len(events) > 0 && events[len(events)-1].ID.LSN.Compare(lsn) > 0 {
			events = events[:len(events)-1]
		}
		if first == nil {
			first = events
		}
		if lost != (notify.EventID{}) || len(events) < 61 || fmt.Sprint(events) != fmt.Sprint(first) {
			t.Fatalf("%s has %d events, lost %s, others %d", m.Name(), len(events), lost, len(first))
		}
	}
}
