package cluster

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"osqueue/cluster/raftlog"
)

// A node must not apply a committed entry in which a bit has flipped: its state would
// differ from that of the other nodes from then on.
func TestNodeWithADamagedLogDoesNotStart(t *testing.T) {
	l := newLab(t)
	nodes := l.start("n", 3, nil)
	leader := l.leader(nodes...)
	l.enqueue(leader, "job-with-a-name-to-look-for")
	var n *member
	for _, m := range nodes {
		if m != leader {
			n = m
		}
	}
	l.eventually("the follower to have it", func() bool { return n.Job("job-with-a-name-to-look-for") != nil })
	n.stop()

	path := filepath.Join(n.cfg.DataDir, "raft.db")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	flipped := bytes.ReplaceAll(data, []byte("job-with-a-name-to-look-for"), []byte("job-with-a-name-to-look-Gor"))
	if bytes.Equal(flipped, data) {
		t.Fatal("there is nothing to damage")
	}
	if err := os.WriteFile(path, flipped, 0o600); err != nil {
		t.Fatal(err)
	}
	if m, err := Open(n.cfg); !errors.Is(err, raftlog.ErrDamaged) {
		if err == nil {
			_ = m.Close()
		}
		t.Fatalf("it starts: %v", err)
	}

	// The advice in the error message works.
	back := l.again(n, t.TempDir(), nil)
	l.eventually("the new member to have it", func() bool { return back.Job("job-with-a-name-to-look-for") != nil })
}
