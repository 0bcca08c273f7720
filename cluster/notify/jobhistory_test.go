package notify

import (
	"fmt"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// tell reports progress of a running job.
func (b *bench) tell(j *fsm.Job, percent uint32, message string) {
	b.t.Helper()
	b.now += 1000
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: "w", Leases: []*fsmpb.Lease{{
		JobId: j.ID, Token: j.Execution().Token, Progress: &fsmpb.Progress{Percent: percent, Message: message},
	}}}}})
}

func TestJobHistory(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 1)
	j := b.apply(claimOf("w", 1))[0].Jobs[0]
	if got := b.told.Progress(j.ID); got != nil {
		t.Fatalf("got %+v before any report", got)
	}
	start := b.now
	b.tell(j, 10, "one")
	b.tell(j, 10, "one") // says nothing new
	b.tell(j, 20, "two")
	got := b.told.Progress(j.ID)
	if len(got) != 2 || got[0] != (ProgressPoint{1, 10, start + 1000, "one"}) || got[1] != (ProgressPoint{1, 20, start + 3000, "two"}) {
		t.Fatalf("got %+v", got)
	}
	for i := range 200 {
		b.tell(j, 30, fmt.Sprint(i))
	}
	got = b.told.Progress(j.ID)
	if n := len(got); n > progressPoints || n < progressPoints/2 || got[n-1].Message != "199" {
		t.Fatalf("%d points up to %+v", len(got), got[len(got)-1])
	}
	for i := 1; i < len(got); i++ {
		if got[i].At <= got[i-1].At {
			t.Fatalf("%+v", got)
		}
	}
	for i := range 20 {
		b.tell(j, 40, fmt.Sprint(i)+strings.Repeat("x", 1000))
	}
	if n := costOf(b.told.Progress(j.ID)); n > progressJobBytes {
		t.Errorf("%d bytes of one attempt", n)
	}
	other := newBench(t, 100)
	b.restore(other.machine)
	if got := b.told.Progress(j.ID); got != nil || b.told.bytes != 0 || b.told.order.Len() != 0 {
		t.Errorf("%d points and %d bytes of a job that is gone", len(got), b.told.bytes)
	}
}

// The points of all jobs together are bounded, and the newest attempts of a job stay.
func TestJobHistoryIsBounded(t *testing.T) {
	p := NewJobHistory()
	message := strings.Repeat("m", 1000)
	for i := range 30_000 {
		job := &fsm.Job{ID: fmt.Sprint(i % 20_000), Attempts: int32(i/20_000 + 1)}
		job.Det = &fsm.Details{Progress: fsm.Progress{Percent: 1, Message: message}}
		p.add(job, int64(i))
		if p.bytes > progressBytes {
			t.Fatalf("%d bytes", p.bytes)
		}
	}
	if got := p.Progress("9999"); len(got) == 0 || p.Progress("10000") != nil {
		t.Errorf("%d points of the last job", len(got))
	}
	sum := 0
	for _, j := range p.byID {
		sum += jobCost + len(j.id) + costOf(j.points)
	}
	if sum != p.bytes || int(p.jobs.Load()) != len(p.byID) {
		t.Errorf("%d bytes are counted, %d kept", p.bytes, sum)
	}
	one := new(jobNotes)
	for attempt := range int32(10) {
		one.add(ProgressPoint{Attempt: attempt + 1})
	}
	if len(one.points) != progressAttempts || one.points[0].Attempt != 7 {
		t.Errorf("%+v", one.points)
	}
}

// changeOf is a request to cancel or retry a job.
func changeOf(kind fsm.ChangeKind, actor, id string) *fsmpb.Mutation {
	return &fsmpb.Mutation{Actor: actor, Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(kind), Ids: []string{id}}}}
}

// actionsOn returns the actors and statuses of the actions on a job.
func (b *bench) actionsOn(id string) string {
	var out []string
	for _, a := range b.told.Actions(id) {
		out = append(out, fmt.Sprint(a.From, ">", a.Status, "=", a.Actor))
	}
	return strings.Join(out, " ")
}

// A job remembers who changed it, and not what its worker and the machine did.
func TestActions(t *testing.T) {
	b := newBench(t, 100)
	b.apply(&fsmpb.Mutation{Actor: "p", Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "a", Type: "t"}, {Id: "b", Type: "t"}}}}})
	made := b.now
	b.now += 1000
	b.apply(&fsmpb.Mutation{Actor: "w", Op: claimOf("w", 1).Op})
	if got := b.actionsOn("a"); got != "" || b.told.jobs.Load() != 0 {
		t.Errorf("a claim is %q", got)
	}
	b.apply(changeOf(fsm.CancelJobs, "op", "a"), changeOf(fsm.CancelJobs, "", "b"), changeOf(fsm.RetryJobs, "", "b"))
	b.apply(changeOf(fsm.CancelJobs, "again", "a")) // changes nothing
	if got := b.actionsOn("a"); got != "in_progress>in_progress=op" {
		t.Errorf("a: %q", got)
	}
	if got := b.actionsOn("b"); got != "cancelled>unclaimed=" {
		t.Errorf("b: %q", got)
	}
	if at := b.told.Actions("b")[0].At; at != b.now {
		t.Errorf("at %d, want %d", at, b.now)
	}
	for range actionsKept {
		b.apply(changeOf(fsm.CancelJobs, "x", "b"), changeOf(fsm.RetryJobs, "y", "b"))
	}
	got := b.actionsOn("b")
	if n := len(b.told.Actions("b")); n != actionsKept || !strings.HasSuffix(got, "unclaimed>cancelled=x cancelled>unclaimed=y") {
		t.Errorf("%d actions: %q", n, got)
	}
	for id, found := range map[string]bool{"a": true, "b": true, "c": false} {
		if e, ok := b.events.Enqueued(id, made); ok != found || found && (e.Actor != "p" || e.JobID != id) {
			t.Errorf("the enqueue of %s: %+v", id, e)
		}
	}
	if _, ok := b.events.Enqueued("a", made+1); ok {
		t.Error("an enqueue is found at another time")
	}
	b.apply(changeOf(fsm.CancelJobs, "op", "b"), changeOf(fsm.DeleteJobs, "op", "b"))
	if got := b.actionsOn("b"); got != "" {
		t.Errorf("%q of a deleted job", got)
	}
}
