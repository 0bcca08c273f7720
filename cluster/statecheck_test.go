package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// spoil changes the state of one node without a log entry.
func (m *member) spoil(id string) {
	r := m.replica
	r.mu.Lock()
	defer r.mu.Unlock()
	meta := r.machine.Meta()
	r.machine.Apply(meta.LSN.Index, meta.LSN.Term-meta.TermBase, &fsmpb.Batch{NowMs: meta.Now, Mutations: []*fsmpb.Mutation{
		{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "t"}}}}},
	}})
	r.view = nil
}

// fatalOf waits for the error with which a node ends.
func (l *lab) fatalOf(m *member) error {
	l.t.Helper()
	select {
	case err := <-m.Fatal():
		return err
	case <-time.After(15 * time.Second):
		l.t.Fatalf("%s does not end", m.Name())
		return nil
	}
}

// TestANodeWithAnotherStateEnds: the next check finds a node whose state differs from
// that of the majority, whether it leads or follows. The node ends, and does not start
// with its data directory again. The others continue, and the node rejoins them with an
// empty directory.
func TestANodeWithAnotherStateEnds(t *testing.T) {
	t.Parallel()
	for name, leads := range map[string]bool{"leader": true, "follower": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			newLab(t).endsWithAnotherState(leads)
		})
	}
}

func (l *lab) endsWithAnotherState(leads bool) {
	nodes := l.start("n", 3, func(c *Config) { c.StateCheck = 100 * time.Millisecond })
	leader := l.leader(nodes...)
	l.enqueue(leader, "a")
	l.eventually("a check on every node", func() bool {
		for _, n := range nodes {
			if s := n.Status(); s.CheckedLSN.IsZero() || s.StateError != "" {
				return false
			}
		}
		return true
	})
	i := 0
	for nodes[i] == leader != leads {
		i++
	}
	wrong := nodes[i]
	others := append(append([]*member{}, nodes[:i]...), nodes[i+1:]...)
	wrong.spoil("stray")
	if err := l.fatalOf(wrong); !errors.Is(err, errForked) || !errors.Is(err, fsm.ErrDiverged) || !strings.Contains(err.Error(), wrong.cfg.DataDir) {
		l.t.Fatalf("%s ends: %v", wrong.Name(), err)
	}
	if _, err := wrong.replica.Snapshot(); err == nil {
		l.t.Error("a snapshot of the wrong state")
	}
	wrong.stop()
	if n, err := Open(wrong.cfg); err == nil || !strings.Contains(err.Error(), "delete the directory") {
		if err == nil {
			_ = n.Close()
		}
		l.t.Fatalf("a start on the wrong state: %v", err)
	}
	l.enqueue(l.leader(others...), "b")
	for _, n := range others {
		l.eventually("the finding on "+n.Name(), func() bool { return strings.Contains(n.Status().StateError, string(wrong.id)) || n.Job("b") != nil })
		// A job that a leader has flushed is taken over: a reader may have seen it in the
		// document.
		if !leads && n.Job("stray") != nil {
			l.t.Errorf("%s has a job of the wrong state", n.Name())
		}
	}

	if err := os.RemoveAll(wrong.cfg.DataDir); err != nil {
		l.t.Fatal(err)
	}
	back := l.again(wrong, wrong.cfg.DataDir, func(c *Config) { c.StateCheck = wrong.cfg.StateCheck })
	l.eventually("the node to be back", func() bool { return back.Job("b") != nil })
	checked := back.Status().CheckedLSN
	l.eventually("the next check", func() bool { return back.Status().CheckedLSN.Compare(checked) > 0 })
	select {
	case err := <-back.Fatal():
		l.t.Fatal(err)
	default:
	}
}

// TestOneCheckOfAnUnequalPair: without a majority no node ends, and the leader logs the
// difference.
func TestOneCheckOfAnUnequalPair(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	nodes := l.start("n", 2, func(c *Config) { c.StateCheck = 100 * time.Millisecond })
	leader := l.leader(nodes...)
	l.enqueue(leader, "a")
	l.eventually("a check", func() bool { return !leader.Status().CheckedLSN.IsZero() })
	nodes[0].spoil("stray")
	l.eventually("the alarm", func() bool { return l.leader(nodes...).Status().StateError != "" })
	for _, n := range nodes {
		select {
		case err := <-n.Fatal():
			t.Errorf("%s ends: %v", n.Name(), err)
		default:
		}
	}
	l.enqueue(l.leader(nodes...), "b")
}

// TestAReplayToAnotherState: the node ends without a mark, because the release before
// may replay the log correctly.
func TestAReplayToAnotherState(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) { c.StateCheck = 50 * time.Millisecond })...)
	l.enqueue(n, "a")
	l.eventually("a check", func() bool { return !n.Status().CheckedLSN.IsZero() })
	n.replayed = n.raft.LastIndex() + 1000
	n.replica.sums.mu.Lock()
	sum := n.replica.sums.own[0]
	sum.Sum[0]++
	n.replica.sums.own[0] = sum
	n.replica.sums.mu.Unlock()
	if err := l.fatalOf(n); !errors.Is(err, errForked) || !strings.Contains(err.Error(), "the release before") {
		t.Fatalf("it ends: %v", err)
	}
	if _, err := os.Stat(filepath.Join(n.cfg.DataDir, divergedFile)); err == nil {
		t.Error("the data directory is marked")
	}
}
