package fsm_test

import (
	"errors"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// by returns m with an actor.
func by(actor string, m *fsmpb.Mutation) *fsmpb.Mutation {
	m = proto.CloneOf(m)
	m.Actor = actor
	return m
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
