package cluster_test

import (
	"errors"
	"os"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// withDisk starts a cluster in which one node has a small disk. Where that is not
// possible the test says so.
func withDisk(t *testing.T, bytes int64) (*cluster.Cluster, *cluster.Node) {
	t.Helper()
	c := cluster.New(t, cluster.Options{})
	n := c.Nodes[0]
	var not *cluster.NotPossibleError
	if err := n.MountDisk(bytes); errors.As(err, &not) {
		t.Skip(not)
	} else if err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		n.Start()
	}
	c.WaitLeader()
	return c, n
}

func TestDiskOfItsOwn(t *testing.T) {
	const size = 32 << 20
	c, n := withDisk(t, size)
	enqueue(t, c, client.NewJob{Type: "t"})
	inStep(t, c)
	before, err := n.Disk()
	if err != nil || before.Size != size || before.Free == size {
		t.Fatalf("a disk of %d bytes is %+v: %v", size, before, err)
	}
	const leave = 64 << 10
	full, err := n.FillDisk(leave)
	if err != nil || full.Free > leave {
		t.Fatalf("a full disk is %+v: %v", full, err)
	}
	if err := n.FreeDisk(); err != nil {
		t.Fatal(err)
	}
	if after, err := n.Disk(); err != nil || after.Free < before.Free-(1<<20) {
		t.Errorf("freed, the disk is %+v, was %+v: %v", after, before, err)
	}
}

// A node with a full disk does not disturb the others, and recovers when space is free.
func TestAFullDiskUnderLoad(t *testing.T) {
	c, n := withDisk(t, 32<<20)
	if _, err := n.FillDisk(0); err != nil {
		t.Fatal(err)
	}
	payload := []byte(`"` + strings.Repeat("x", 100_000) + `"`)
	for range 40 {
		enqueue(t, c, client.NewJob{Type: "t", Payload: payload})
	}
	c.Eventually(patience, n.Name+" to notice", func() error {
		if !strings.Contains(n.Log(), "no space left on device") {
			return errNotYet
		}
		return nil
	})
	if err := n.FreeDisk(); err != nil {
		t.Fatal(err)
	}
	n.Kill() // it may have ended by itself
	n.Start()
	inStep(t, c)
}

func TestNoDiskOfItsOwn(t *testing.T) {
	c := cluster.New(t, cluster.Options{Nodes: 1})
	n := c.Nodes[0]
	if _, err := n.FillDisk(0); err == nil {
		t.Error("the disk of everybody was filled")
	}
	if _, err := n.Disk(); err == nil {
		t.Error("a disk that is not there has space")
	}
	if err := n.FreeDisk(); err == nil {
		t.Error("a disk that is not there was freed")
	}
	if err := os.MkdirAll(n.Dir+"/data/x", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := n.MountDisk(1 << 20); err == nil {
		t.Error("data was hidden by a disk")
	}
}
