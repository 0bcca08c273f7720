package cluster

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

// waiting is a call of AwaitClaim in a goroutine.
type waiting struct {
	until chan struct{}
	done  chan struct{}
	got   Awaited
	err   error
}

func (w *waiting) result(t *testing.T) (Awaited, error) {
	t.Helper()
	select {
	case <-w.done:
	case <-time.After(20 * time.Second):
		t.Fatal("the claim waits on")
	}
	return w.got, w.err
}

// await begins to wait with a claim, behind those that wait already.
func (l *lab) await(ctx context.Context, n *member, claim *fsmpb.Mutation) *waiting {
	l.t.Helper()
	before := n.ready.Sleeping()
	w := &waiting{until: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(w.done)
		w.got, w.err = n.AwaitClaim(ctx, w.until, claim)
	}()
	l.eventually("the claim to sleep", func() bool { return n.ready.Sleeping() == before+1 })
	return w
}

// An enqueue and the claims that wait for its jobs are one entry, in the order of the
// claims' calls.
func TestWaitingClaimsShareTheEntryOfTheEnqueue(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	var all []*waiting
	for i := range 4 {
		all = append(all, l.await(t.Context(), n, script.Claim(fmt.Sprint("w", i), 1, "t")))
	}
	other := l.await(t.Context(), n, script.Claim("w", 1, "other"))
	_, lsn, err := n.Propose(t.Context(), script.Enqueue("j0", "j1", "j2"))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range all[:3] {
		a, err := w.result(t)
		if err != nil || a.LSN != lsn || len(a.Result.Jobs) != 1 || a.Result.Jobs[0].ID != fmt.Sprint("j", i) {
			t.Errorf("claim %d got %+v, %v; want job j%d in entry %s", i, a, err, i, lsn)
		}
	}
	for _, w := range []*waiting{all[3], other} {
		close(w.until)
		if a, err := w.result(t); err != nil || a.Woken || !a.LSN.IsZero() {
			t.Errorf("a claim without a job got %+v, %v", a, err)
		}
	}
}

// Another caller of the same batch gets its own result, whatever claims are between.
func TestAWaitingClaimGoesBackToSleep(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	limit := int64(1)
	l.commit(n, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "t", MaxRunningPerGroup: &limit}}})
	l.commit(n, grouped("a"), script.Claim("w", 1, "t"))
	w := l.await(t.Context(), n, script.Claim("w", 1, "t"))
	before := n.replica.meta().LSN()
	res, lsn := l.commit(n, grouped("b"))
	if lsn.Index != before.Index+1 || res[0].Jobs[0].ID != "b" {
		t.Fatalf("the enqueue got %+v in entry %s", res, lsn)
	}
	l.eventually("the claim to sleep again", func() bool {
		s := n.ready.Take("t", 1, 1<<20)
		for _, one := range s {
			one.Deliver(notify.Answer{})
		}
		return len(s) == 1
	})
	a := n.Job("a")
	l.commit(n, script.CompleteOf(a))
	if got, err := w.result(t); err != nil || !got.Woken {
		t.Fatalf("got %+v, %v; want a wake-up: the group may run a job again", got, err)
	}
}

// If the caller leaves while its claim is in an entry, the outcome is unknown, and a
// repeated request gets the same job.
func TestACallerThatLeavesDuringTheCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	claim := script.Claim("w", 1, "t")
	claim.GetClaim().RequestId = "r"
	ctx, cancel := context.WithCancel(t.Context())
	left := l.await(ctx, n, claim)
	stays := l.await(t.Context(), n, script.Claim("v", 1, "t"))
	taken := n.ready.Take("t", 2, 1<<20)
	cancel()
	if _, err := left.result(t); !errors.Is(err, ErrUnknown) || !errors.Is(err, context.Canceled) {
		t.Fatalf("got %v, want an unknown outcome", err)
	}
	close(stays.until)
	res, lsn := l.commit(n, grouped("a"), taken[0].Claim(), taken[1].Claim())
	for i, s := range taken {
		s.Deliver(notify.Answer{Result: res[1+i], LSN: lsn})
	}
	if a, err := stays.result(t); err != nil || !a.LSN.IsZero() {
		t.Fatalf("the second claim got %+v, %v", a, err)
	}
	again, _ := l.commit(n, claim)
	if again[0].Code != fsm.Duplicate || len(again[0].Jobs) != 1 || again[0].Jobs[0].ID != "a" {
		t.Fatalf("the repeated request got %+v", again[0])
	}
}

// A wait that ends while the claim is in an entry ends with the outcome.
func TestAWaitThatEndsDuringTheCommit(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	w := l.await(t.Context(), n, script.Claim("w", 1, "t"))
	taken := n.ready.Take("t", 1, 1<<20)
	close(w.until)
	res, lsn := l.commit(n, grouped("a"), taken[0].Claim())
	taken[0].Deliver(notify.Answer{Result: res[1], LSN: lsn})
	if a, err := w.result(t); err != nil || a.LSN != lsn || len(a.Result.Jobs) != 1 {
		t.Fatalf("got %+v, %v", a, err)
	}
}

// The end of a leader term ends the waits, and claims in an entry get its outcome.
func TestWaitingClaimsEndWithTheTerm(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	free := l.await(t.Context(), n, script.Claim("w", 1, "t"))
	held := l.await(t.Context(), n, script.Claim("w", 1, "u"))
	taken := n.ready.Take("u", 1, 1<<20)
	n.StepDown(t.Context())
	if _, err := free.result(t); !errors.Is(err, ErrNotLeader) {
		t.Fatalf("got %v", err)
	}
	taken[0].Deliver(notify.Answer{Err: ErrUnknown})
	if _, err := held.result(t); !errors.Is(err, ErrUnknown) {
		t.Fatalf("got %v", err)
	}
}

// commit commits mutations in one entry.
func (l *lab) commit(n *member, ms ...*fsmpb.Mutation) ([]fsm.Result, fsm.LSN) {
	l.t.Helper()
	res, lsn, err := n.ProposeAll(l.t.Context(), ms)
	if err != nil {
		l.t.Fatal(err)
	}
	return res, lsn
}

// grouped enqueues a job in a group.
func grouped(id string) *fsmpb.Mutation {
	m := script.Enqueue(id)
	m.GetEnqueue().Jobs[0].Optional().Group = "g"
	return m
}
