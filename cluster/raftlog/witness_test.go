package raftlog

import (
	"errors"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/hashicorp/raft"
)

// A node starts although its witness cannot be written, as on a full disk: the old one claims less.
func TestTheWitnessNeedsNoRoomAtTheStart(t *testing.T) {
	l := open(t, fullClaims{Memory()}, Options{})
	if err := l.StoreLog(&raft.Log{Index: 7, Term: 1}); err != nil {
		t.Fatal(err)
	}
	if err := l.Witness("n~1", t.TempDir()); err != nil || l.witness.known.Index != 5 || l.durable.Index != 7 {
		t.Fatalf("%+v, %v", l.durable, err)
	}
}

// fullClaims has a witness of 5 entries on a full disk.
type fullClaims struct{ Disk }

func (fullClaims) LoadWitness() (Witnessed, error) { return Witnessed{Server: "n~1", Index: 5}, nil }
func (fullClaims) SaveWitness(Witnessed) error     { return syscall.ENOSPC }

// The log of a follower may become shorter: the witness is lowered before the log.
func TestTheWitnessIsLoweredBeforeTheLogIs(t *testing.T) {
	dir, fails, disk := t.TempDir(), errors.New("the log fails"), newHooked()
	log := func() *Log {
		l := open(t, disk, Options{})
		if err := l.Witness("n~1", dir); err != nil {
			t.Fatal(err)
		}
		return l
	}
	must(t, disk.SaveWitness(Witnessed{Server: "n~1"}))
	g := log()
	for i := uint64(1); i <= 5; i++ {
		must(t, g.StoreLog(&raft.Log{Index: i, Term: 1}))
	}
	must(t, g.SetUint64([]byte(keyTerm), 3), g.SetUint64([]byte(keyVoteTerm), 2))
	g.mu.Lock()
	must(t, g.saveLocked())
	g.mu.Unlock()
	must(t, g.Close())
	for _, c := range []struct{ from, to, want uint64 }{{1, 2, 5}, {4, 5, 3}} {
		g := log() // a node ends after a write that failed
		disk.before = func(what string) error {
			if what == truncates {
				return fails
			}
			return nil
		}
		if err := g.DeleteRange(c.from, c.to); (c.to == 5) != errors.Is(err, fails) {
			t.Fatal(err)
		}
		got, err := disk.LoadWitness()
		if want := (Witnessed{Server: "n~1", Term: 3, VoteTerm: 2, Index: c.want}); err != nil || got != want {
			t.Errorf("entries %d to %d are about to be removed, and the witness says %v: %v", c.from, c.to, got, err)
		}
		must(t, g.Close())
	}
}

// slowClaims has a witness that is being written until the test lets it.
type slowClaims struct {
	Disk
	goOn chan struct{}
}

func (s slowClaims) SaveWitness(w Witnessed) error {
	<-s.goOn
	return s.Disk.SaveWitness(w)
}

// An append does not wait for the witness. A removal of the end does: the claim that is being written may be too high.
func TestAnAppendDoesNotWaitForTheWitness(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk := slowClaims{Memory(), make(chan struct{})}
		l := open(t, disk, Options{Size: 64 << 10})
		must(t, l.Witness("", t.TempDir()), l.StoreLogs(entries(1, 5)))
		save := func() error {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.saveLocked()
		}
		saved := start("save", save)
		synctest.Wait()
		must(t, l.StoreLogs(entries(6, 7)))
		removed := start("remove", func() error { return l.DeleteRange(4, 7) })
		synctest.Wait()
		if saved.returned || removed.returned || l.last() != 7 {
			t.Fatalf("the witness is not written, and the log ends with entry %d", l.last())
		}
		close(disk.goOn)
		synctest.Wait()
		w, err := disk.LoadWitness()
		if must(t, err, saved.err, removed.err); w.Index != 3 || l.last() != 3 {
			t.Errorf("the witness has %v, and the log ends with entry %d", w, l.last())
		}
	})
}
