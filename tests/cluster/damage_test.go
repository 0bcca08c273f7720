package cluster_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// The newest entry of the raft log is where LastEntry says, and a node notices that
// a bit of it has flipped.
func TestFlippedBitInTheRaftLog(t *testing.T) {
	c := cluster.Start(t, cluster.Options{})
	for range 20 { // so that it has some length
		enqueue(t, c, client.NewJob{Type: "t"})
	}
	const mark = `"needle in the last entry"`
	enqueue(t, c, client.NewJob{Type: "t", Payload: []byte(mark)})
	inStep(t, c)
	n := c.Follower()
	if _, err := n.FlipBit(filepath.Join(n.DataDir(), "identity.json"), 0, 0); err == nil {
		t.Fatal("a running node's file was damaged")
	}
	n.Kill()
	path, offset, length, err := n.LastEntry()
	if err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(before[offset:offset+length], []byte(mark))
	if at < 0 {
		t.Fatalf("bytes %d to %d are not the last entry", offset, offset+length)
	}
	d, err := n.FlipBit(path, offset+int64(at), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(d)
	after, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before[offset+int64(at)] ^= 8
	if !bytes.Equal(before, after) {
		t.Error("more or less than one bit has changed")
	}
	n.Start()
	c.Eventually(patience, "the node to refuse its log", func() error {
		if n.Running() {
			return errNotYet
		}
		return nil
	})
	if log := n.LogTail(5); !strings.Contains(log, "damaged") {
		t.Errorf("the node does not say what is wrong:\n%s", log)
	}
}

func TestTornFiles(t *testing.T) {
	c := cluster.Start(t, cluster.Options{Nodes: 1, Flags: []string{"--broker-timeout", "1s", "--broker-heartbeat", "300ms"}})
	n := c.Nodes[0]
	enqueue(t, c, client.NewJob{Type: "t"})
	c.StopAll()
	n.Wipe()
	n.Start() // it gets the adopted state from the bucket as a snapshot
	c.WaitLeader()
	n.Kill()
	snapshots, err := n.Snapshots()
	if err != nil || len(snapshots) != 1 {
		t.Fatalf("the snapshots are %v: %v", snapshots, err)
	}
	log, _, _, err := n.LastEntry()
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{snapshots[0], log} {
		before, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		d, err := n.TearEnd(path, 10)
		if err != nil {
			t.Fatal(err)
		}
		t.Log(d)
		after, err := os.Stat(path)
		if err != nil || after.Size() != before.Size()-10 || d.Offset != after.Size() {
			t.Errorf("%v: %d bytes of %d are left, %v", d, after.Size(), before.Size(), err)
		}
		if _, err := n.TearEnd(path, before.Size()); err == nil {
			t.Error("more was cut off than there was")
		}
		if _, err := n.FlipBit(path, -1, 0); err != nil {
			t.Error(err)
		}
		if _, err := n.FlipBit(path, after.Size(), 0); err == nil {
			t.Error("a bit behind the end has flipped")
		}
	}
}

func TestSnapshotsAreSorted(t *testing.T) {
	n := cluster.New(t, cluster.Options{Nodes: 1}).Nodes[0]
	for _, name := range []string{"2-9-3", "2-100-1", "3-20-2", "3-200-9.tmp"} {
		dir := filepath.Join(n.Dir, "data", "snapshots", name)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "state.bin"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	paths, err := n.Snapshots()
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, p := range paths {
		names = append(names, filepath.Base(filepath.Dir(p)))
	}
	if got, want := strings.Join(names, " "), "2-100-1 3-20-2 2-9-3"; got != want {
		t.Errorf("the snapshots are %s, want %s", got, want)
	}
}
