package raftlog

import (
	"errors"
	"syscall"
	"testing"

	"github.com/hashicorp/raft"
)

// A node starts although its witness cannot be written, as on a full disk: the old one claims less.
func TestTheWitnessNeedsNoRoomAtTheStart(t *testing.T) {
	mem := Memory()
	if err := mem.StoreLog(&raft.Log{Index: 7, Term: 1}); err != nil {
		t.Fatal(err)
	}
	l := New(mem, Options{})
	if err := l.Witness("n~1", fullClaims{}, t.TempDir()); err != nil || l.witness.known.Index != 5 || l.durable.Index != 7 {
		t.Fatalf("%+v, %v", l.durable, err)
	}
}

// fullClaims is a witness of 5 entries on a full disk.
type fullClaims struct{}

func (fullClaims) Load() (*Witnessed, error) { return &Witnessed{Server: "n~1", Index: 5}, nil }
func (fullClaims) Save(Witnessed) error      { return syscall.ENOSPC }

// The log of a follower may become shorter: the witness is lowered before the log.
func TestTheWitnessIsLoweredBeforeTheLogIs(t *testing.T) {
	dir, fails := t.TempDir(), errors.New("the log fails")
	mem := Memory()
	log := func() *Log { // a node ends after a write that failed
		l := New(failing(mem, "DeleteRange", fails), Options{Fatal: func(error) {}})
		if err := l.Witness("n~1", WitnessFile(dir), dir); err != nil {
			t.Fatal(err)
		}
		return l
	}
	if err := WitnessFile(dir).Save(Witnessed{Server: "n~1"}); err != nil {
		t.Fatal(err)
	}
	g := log()
	for i := uint64(1); i <= 5; i++ {
		if err := g.StoreLog(&raft.Log{Index: i, Term: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(g.SetUint64([]byte(keyTerm), 3), g.SetUint64([]byte(keyVoteTerm), 2), g.save()); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ from, to, want uint64 }{{1, 2, 5}, {4, 5, 3}} {
		if err := log().DeleteRange(c.from, c.to); !errors.Is(err, fails) {
			t.Fatal(err)
		}
		got, err := ReadWitness(dir)
		if want := (Witnessed{Server: "n~1", Term: 3, VoteTerm: 2, Index: c.want}); err != nil || *got != want {
			t.Errorf("entries %d to %d are about to be removed, and the witness says %v: %v", c.from, c.to, got, err)
		}
	}
}
