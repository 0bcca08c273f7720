package notify

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (b *bench) wait(id string) <-chan struct{} {
	ended, forget := b.ends.Wait(id)
	b.t.Cleanup(forget)
	return ended
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func TestEnded(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 3) // t-0-0 to t-0-2
	first, second := b.wait("t-0-0"), b.wait("t-0-0")
	third, forget := b.ends.Wait("t-0-1")
	fourth := b.wait("t-0-2")
	jobs := b.apply(claimOf("w", 3))[0].Jobs
	if isClosed(first) || isClosed(second) || isClosed(third) {
		t.Fatal("a claimed job has ended")
	}
	b.apply(completeOf(jobs[0]))
	if !isClosed(first) || !isClosed(second) || isClosed(third) {
		t.Fatal("want the end of the first job, for both that wait for it")
	}
	forget()
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: "w", Lease: &fsmpb.Lease{JobId: "t-0-2", Token: jobs[2].Execution().Token}, Permanent: true,
	}}})
	if !isClosed(fourth) {
		t.Fatal("a dead job has not ended")
	}
	if len(b.ends.byID) != 0 {
		t.Fatalf("%d jobs are remembered, want none", len(b.ends.byID))
	}
}

func TestForgottenWaitsTakeNoMemory(t *testing.T) {
	b := newBench(t, 100)
	_, one := b.ends.Wait("a")
	_, two := b.ends.Wait("a")
	one()
	if len(b.ends.byID) != 1 {
		t.Fatal("the other caller still waits")
	}
	two()
	if n, kept := b.ends.waiting.Load(), len(b.ends.byID); n != 0 || kept != 0 {
		t.Fatalf("%d wait and %d jobs are remembered, want none", n, kept)
	}
}

// A state that replaces the old one has no events for the jobs that have ended in
// between.
func TestEndedSeesARestoredState(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 2)
	gone, stays := b.wait("t-0-0"), b.wait("t-0-1")
	other := newBench(t, 100)
	other.enqueue("t", 2)
	j := other.apply(claimOf("w", 1))[0].Jobs[0]
	other.apply(completeOf(j))
	b.restore(other.machine)
	if !isClosed(gone) {
		t.Fatal("the end of a job was missed")
	}
	if b.machine.Job("t-0-1").Status != fsm.Unclaimed || isClosed(stays) {
		t.Fatal("a waiting job has ended")
	}
}
