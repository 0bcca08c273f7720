package notify

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"unsafe"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func id(term, index uint64, n uint32) EventID {
	return EventID{LSN: fsm.LSN{Term: term, Index: index}, N: n}
}

func TestEventIDs(t *testing.T) {
	for _, e := range []EventID{{}, id(3, 17, 2), endOf(fsm.LSN{Term: 1, Index: 1<<64 - 1})} {
		got, err := ParseEventID(e.String())
		if err != nil || got != e {
			t.Errorf("%s is read as %s, %v", e, got, err)
		}
	}
	for _, s := range []string{"", "1", "1-2", "1-2.", "1-2.x", "1.2", "1-2.3.4", "1-2.-1", "1-2.4294967296", "-.", "1-2 .3"} {
		if got, err := ParseEventID(s); !errors.Is(err, ErrBadEventID) {
			t.Errorf("%q is read as %s, %v", s, got, err)
		}
	}
	order := []EventID{{}, id(0, 1, 1), id(1, 1, 1), id(1, 1, 2), id(1, 2, 0), id(2, 1, 1)}
	for i := 1; i < len(order); i++ {
		if order[i-1].Compare(order[i]) >= 0 || order[i].Compare(order[i-1]) <= 0 {
			t.Errorf("%s is not before %s", order[i-1], order[i])
		}
	}
}

func ids(events []Event) string {
	var all []string
	for _, e := range events {
		all = append(all, e.ID.String())
	}
	return strings.Join(all, " ")
}

func TestEventsSince(t *testing.T) {
	b := newBench(t, 5)
	if last := b.events.Last(); last != (EventID{}) {
		t.Fatalf("the last of no events is %s", last)
	}
	b.enqueue("t", 2) // 1-1.1, 1-1.2
	b.apply()         // no events
	b.enqueue("t", 2) // 1-3.1, 1-3.2
	want := func(after EventID, most int, wanted string, wantLost EventID) {
		t.Helper()
		events, lost := b.events.Since(after, most)
		if got := ids(events); got != wanted || lost != wantLost {
			t.Errorf("after %s: %q, lost %s; want %q, %s", after, got, lost, wanted, wantLost)
		}
	}
	want(EventID{}, 10, "1-1.1 1-1.2 1-3.1 1-3.2", EventID{})
	want(EventID{}, 3, "1-1.1 1-1.2 1-3.1", EventID{})
	want(id(1, 1, 1), 10, "1-1.2 1-3.1 1-3.2", EventID{})
	want(id(1, 2, 7), 10, "1-3.1 1-3.2", EventID{})
	want(id(1, 3, 2), 10, "", EventID{})
	want(id(9, 9, 9), 10, "", EventID{})
	want(EventID{}, 0, "", EventID{})

	b.enqueue("t", 3) // the history drops two
	want(id(1, 1, 1), 10, "1-3.1 1-3.2 1-4.1 1-4.2 1-4.3", id(1, 1, 2))
	want(id(1, 1, 2), 10, "1-3.1 1-3.2 1-4.1 1-4.2 1-4.3", EventID{})
	b.enqueue("t", 12) // more than the history has slots
	want(id(1, 4, 3), 10, "1-5.8 1-5.9 1-5.10 1-5.11 1-5.12", id(1, 5, 7))
	if last := b.events.Last(); last != id(1, 5, 12) {
		t.Errorf("the last is %s", last)
	}
}

func TestWhatEventsSay(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 1)
	j := b.apply(claimOf("w", 1))[0].Jobs[0]
	lease := &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token, Progress: &fsmpb.Progress{Percent: 40, Message: strings.Repeat("ü", 200)}}
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: "w", Leases: []*fsmpb.Lease{lease}}}})
	lease.Progress = nil
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: lease, Error: "no luck"}}})
	j = b.apply(claimOf("w", 1))[0].Jobs[0]
	b.apply(completeOf(j))
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: "w"}}})
	b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{
		Kind: uint32(fsm.AnnounceBucketAway), Text: "no route",
	}}})
	events, _ := b.events.Since(EventID{}, 100)
	var got []string
	for _, e := range events {
		got = append(got, fmt.Sprintf("%d %s>%s %d %s%s %q %d %d", e.Kind, e.From, e.Status, e.Attempts, e.Worker, e.Name, e.Error,
			e.Percent, len(e.Message)))
		if e.At != b.now {
			t.Errorf("%s is at %d", e.ID, e.At)
		}
	}
	want := []string{
		`0 >unclaimed 0  "" 0 0`, `0 unclaimed>in_progress 1 w "" 0 0`, `1 in_progress>in_progress 1 w "" 40 256`,
		`0 in_progress>unclaimed 1  "no luck" 0 0`, `0 unclaimed>in_progress 2 w "" 0 0`, `0 in_progress>completed 2 w "" 0 0`,
		fmt.Sprintf(`%d > 0 w "" 0 0`, fsm.WorkerRegistered), fmt.Sprintf(`%d > 0  "" 0 8`, fsm.BucketAway),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Fatalf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestARestoredStateHasNoHistory(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 2)
	follower := newBench(t, 100)
	waits := make(chan error, 1)
	go func() { waits <- follower.events.Wait(t.Context(), EventID{}) }()
	follower.restore(b.machine)
	wants(t, waits, nil) // such an event existed, and is not kept
	begin := endOf(fsm.LSN{Term: 1, Index: 1})
	if events, lost := follower.events.Since(id(1, 1, 1), 10); len(events) != 0 || lost != begin {
		t.Fatalf("%s, lost %s", ids(events), lost)
	}
	if last := follower.events.Last(); last != begin {
		t.Fatalf("the last is %s", last)
	}
	follower.enqueue("t", 1)
	if events, lost := follower.events.Since(begin, 10); ids(events) != "1-2.1" || lost != (EventID{}) {
		t.Fatalf("%s, lost %s", ids(events), lost)
	}
}

func TestWaitEvents(t *testing.T) {
	b := newBench(t, 100)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	if err := b.events.Wait(ctx, EventID{}); !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	results := make(chan error, 2)
	go func() { results <- b.events.Wait(t.Context(), EventID{}) }()
	go func() { results <- b.events.Wait(t.Context(), id(1, 2, 1)) }() // an event that this node has not applied yet
	b.enqueue("t", 1)
	wants(t, results, nil)
	b.enqueue("t", 1)
	if len(results) != 0 {
		t.Fatal("it woke up for an event that it has")
	}
	b.enqueue("t", 1)
	wants(t, results, nil)
}

// An entry without events does not change the history, and one with events does not
// allocate.
func TestEventsCostNoMemory(t *testing.T) {
	b := newBench(t, 100)
	b.enqueue("t", 50)
	if n := testing.AllocsPerRun(100, func() {
		b.events.Applied(b.machine)
	}); n > 0 {
		t.Fatalf("%v allocations for the events of an entry", n)
	}
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

// FuzzParseEventID: an id that is read is written and read again as the same.
func FuzzParseEventID(f *testing.F) {
	for _, text := range []string{"12-90210.1", "0-0.0", "1-1", "1-1.-1", "1-1.4294967296", ".", "01-1.+1"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		id, err := ParseEventID(text)
		if err != nil {
			if !errors.Is(err, ErrBadEventID) {
				t.Fatal(err)
			}
			return
		}
		if again, err := ParseEventID(id.String()); err != nil || again != id {
			t.Fatalf("%q is %v, and then %v (%v)", text, id, again, err)
		}
	})
}

// The events of a job that is gone do not keep its payload in memory, which has one allocation
// with its id.
func TestEventsKeepNoPayload(t *testing.T) {
	b := newBench(t, 100)
	long := strings.Repeat("long", 20)
	for i, jobID := range []string{"0193c0de-0000-7000-8000-000000000001", long} {
		freed := make(chan struct{})
		b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
			Jobs: []*fsmpb.NewJob{{Id: jobID, Type: "t", Payload: []byte(`"payload"`)}},
		}}})
		runtime.AddCleanup(unsafe.StringData(b.machine.Job(jobID).ID), func(freed chan struct{}) { close(freed) }, freed)
		at := b.now
		b.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{Kind: uint32(fsm.DeleteJobs), Ids: []string{jobID}}}})
		b.enqueue("t", 1) // the machine forgets the events of the entry before
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			runtime.GC()
			select {
			case <-freed:
			default:
				if time.Now().After(end) {
					t.Fatalf("the payload of %q is still in memory", jobID)
				}
				continue
			}
			break
		}
		if e, found := b.events.Enqueued(jobID, at); !found || e.JobID != jobID {
			t.Errorf("the event of the enqueue: %v, %v", e, found)
		}
		if events, _ := b.events.Since(EventID{}, 100); events[3*i].JobID != jobID || events[3*i+1].JobID != jobID {
			t.Errorf("the events are about %q and %q, want %q", events[3*i].JobID, events[3*i+1].JobID, jobID)
		}
	}
}
