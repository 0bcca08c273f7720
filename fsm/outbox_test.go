package fsm_test

import (
	"testing"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// outboxOf returns the events in the outbox of a hook.
func outboxOf(m *fsm.Machine, hook string) (events []*outbox.Event) {
	m.View().HookEvents(hook, outbox.EventID{}, func(e *outbox.Event) bool {
		events = append(events, e)
		return true
	})
	return events
}

// TestFullOutboxDropsTheOldest has a hook with the smallest outbox, and another one that must
// lose nothing by it.
func TestFullOutboxDropsTheOldest(t *testing.T) {
	m := fsm.New()
	small := putHook("small", outbox.AllKinds)
	small.GetPutHook().Hook.BufferBytes = outbox.BufferMin
	apply(t, m, 1, small, putHook("large", outbox.AllKinds))
	const made = 100
	for i := range made {
		apply(t, m, int64(2+i), testHook("small"), testHook("large"))
	}
	h, left := m.View().Hook("small"), outboxOf(m, "small")
	if h.Bytes > outbox.BufferMin || h.Pending != len(left) || int(h.Dropped)+len(left) != made || h.Dropped == 0 {
		t.Errorf("%d events of %d bytes, %d pending, %d dropped", len(left), h.Bytes, h.Pending, h.Dropped)
	}
	all := outboxOf(m, "large")
	if len(all) != made || m.View().Hook("large").Dropped != 0 {
		t.Errorf("the other hook has %d events", len(all))
	}
	if last := left[len(left)-1]; last.At != made+1 {
		t.Errorf("the newest event is of %d", last.At)
	}
	apply(t, m, 500, deleteHook("small"))
	if len(outboxOf(m, "small")) != 0 || len(outboxOf(m, "large")) != made {
		t.Error("the outbox of a deleted hook is still there, or another one is gone")
	}
}

// TestEventOfTwoHooksHasOneID checks the ids, also after a snapshot.
func TestEventOfTwoHooksHasOneID(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1, putHook("a", outbox.AllKinds), putHook("b", outbox.AllKinds), announce(fsm.AnnounceBucketAway, "timeout"))
	a, b := outboxOf(m, "a"), outboxOf(m, "b")
	if len(a) != 1 || len(b) != 1 || a[0].ID != b[0].ID || a[0].Kind != outbox.BucketAway {
		t.Fatalf("events %+v and %+v", a, b)
	}
	back := copyOf(t, m)
	if again := outboxOf(back, "a"); len(again) != 1 || *again[0] != *a[0] {
		t.Errorf("after a snapshot: %+v", again)
	}
	apply(t, m, 2, reported("a", a[0].ID), reported("a", a[0].ID))
	if h := m.View().Hook("a"); h.Delivered != 1 || h.Pending != 0 || len(outboxOf(m, "b")) != 1 {
		t.Errorf("after two equal reports: %+v", *h)
	}
}

// TestTextsOfHooksAreUTF8: a state with another text could not be restored.
func TestTextsOfHooksAreUTF8(t *testing.T) {
	for text, valid := range map[string]bool{"503 é": true, "503 \xff": false} {
		for _, m := range []*fsmpb.Mutation{
			{Op: &fsmpb.Mutation_ReportHook{ReportHook: &fsmpb.ReportHook{Name: "h", Error: text}}},
			{Op: &fsmpb.Mutation_SetAlert{SetAlert: &fsmpb.SetAlert{Hook: "h", Kind: uint32(outbox.QueueStuck), Subject: text}}},
			{Op: &fsmpb.Mutation_SetAlert{SetAlert: &fsmpb.SetAlert{Hook: "h", Kind: uint32(outbox.QueueStuck), Text: text}}},
		} {
			if _, err := fsm.EncodeEntry(&fsmpb.Batch{Mutations: []*fsmpb.Mutation{m}}); (err == nil) != valid {
				t.Errorf("%v: %v", m, err)
			}
		}
	}
}
