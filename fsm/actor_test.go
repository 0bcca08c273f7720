package fsm_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

// by returns m with an actor.
func by(actor string, m *fsmpb.Mutation) *fsmpb.Mutation {
	m = proto.CloneOf(m)
	m.Actor = actor
	return m
}

// TestActorsOfEvents: an event has the actor of the mutation that made the change, and none if
// the machine made it by itself. The state does not depend on actors.
func TestActorsOfEvents(t *testing.T) {
	m, plain := fsm.New(), fsm.New()
	now := int64(0)
	step := func(want string, muts ...*fsmpb.Mutation) {
		t.Helper()
		now += 1000
		apply(t, m, now, muts...)
		var got []string
		for _, e := range m.Events() {
			id := e.Name
			if e.Job != nil {
				id = e.Job.ID
			}
			got = append(got, id+"="+e.Actor)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("events %q, want %q", got, want)
		}
		for i := range muts {
			muts[i] = by("", muts[i])
		}
		apply(t, plain, now, muts...)
		if m.View().Hash() != plain.View().Hash() {
			t.Error("the state depends on the actor")
		}
	}
	behind := enqueue("b")
	behind.GetEnqueue().Jobs[0].After = []string{"a"}
	group := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{complete("w", "a", 1)}}}}
	step("a=p b=q c=", by("p", enqueue("a")), by("q", behind), enqueue("c"))
	step("a=w", by("w", claim("w", 1)))
	step("a=w b=", by("w", group)) // the machine unblocks b
	step("c=op", by("op", changeOf(fsm.CancelJobs, "c")))
	step("t=op", by("op", pauseOf("t", &fsmpb.Pause{UntilMs: now + 1500})))
	step("t=") // the pause ends
}

// TestActorsAreBounded: an entry has no longer actor, none that is not UTF-8, and none within a
// group, which no other node could show.
func TestActorsAreBounded(t *testing.T) {
	inGroup := &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{by("a", enqueue("a"))}}}}
	for name, m := range map[string]*fsmpb.Mutation{
		"long": by(strings.Repeat("x", fsm.ActorMax+1), enqueue("a")), "not UTF-8": by("\xff", enqueue("a")), "in a group": inGroup,
	} {
		if _, err := fsm.EncodeEntry(&fsmpb.Batch{Mutations: []*fsmpb.Mutation{m}}); err == nil {
			t.Errorf("%s: encoded", name)
		}
		data, err := (&fsmpb.Batch{Version: fsm.MaxLevel, Mutations: []*fsmpb.Mutation{m}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fsm.DecodeEntry(data); !errors.Is(err, fsm.ErrEntry) {
			t.Errorf("%s: decoded, %v", name, err)
		}
	}
	entry(t, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{by(strings.Repeat("x", fsm.ActorMax), enqueue("a"))}})
}

// TestActorsOfHookEvents: events of hooks have the actor of the mutation, and none for consequences.
func TestActorsOfHookEvents(t *testing.T) {
	m := fsm.New()
	apply(t, m, 1000, putHook("h", outbox.KindsMatching("job.*")))
	behind := enqueue("b")
	behind.GetEnqueue().Jobs[0].After = []string{"a"}
	behind.GetEnqueue().Jobs[0].AfterFailure = uint32(fsm.AfterCancel)
	apply(t, m, 2000, enqueue("a"), behind)
	apply(t, m, 3000, by("op", changeOf(fsm.CancelJobs, "a")), by("tester", &fsmpb.Mutation{Op: &fsmpb.Mutation_TestHook{TestHook: &fsmpb.TestHook{Name: "h"}}}))
	var got []string
	var bytes int64
	m.View().HookEvents("h", outbox.EventID{}, func(e *outbox.Event) bool {
		got = append(got, e.Kind.String()+" "+e.JobID+"="+e.Actor)
		bytes += 192 + int64(len(e.Hook)+len(e.Subject)+len(e.JobID)+len(e.Text)+len(e.Actor))
		return true
	})
	if want := "job.cancelled a=op, job.cancelled b=, hook.test =tester"; strings.Join(got, ", ") != want {
		t.Errorf("%q, want %q", strings.Join(got, ", "), want)
	}
	if h := m.View().Hook("h"); h.Bytes != bytes {
		t.Errorf("the outbox counts %d bytes, and has %d", h.Bytes, bytes)
	}
}
