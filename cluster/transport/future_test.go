package transport

import (
	"io"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// stuckMachine applies nothing until the test allows it.
type stuckMachine struct {
	may  chan struct{}
	once sync.Once
	at   chan struct{} // closed when the first entry has arrived
}

func (s *stuckMachine) Apply(*raft.Log) any {
	s.once.Do(func() { close(s.at) })
	<-s.may
	return nil
}

func (*stuckMachine) Snapshot() (raft.FSMSnapshot, error) { return nil, raft.ErrNothingNewToSnapshot }
func (*stuckMachine) Restore(r io.ReadCloser) error       { return r.Close() }

// When raft is shut down, it does not answer the futures of entries that are committed
// and not applied yet.
func TestNobodyWaitsForRaftAfterItsEnd(t *testing.T) {
	t.Parallel()
	machine := &stuckMachine{may: make(chan struct{}), at: make(chan struct{})}
	c := raft.DefaultConfig()
	c.LocalID, c.Logger = "n1", hclog.NewNullLogger()
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = 50*time.Millisecond, 50*time.Millisecond, 50*time.Millisecond
	store, snapshots := raft.NewInmemStore(), raft.NewDiscardSnapshotStore()
	addr, wire := raft.NewInmemTransport("")
	servers := raft.Configuration{Servers: []raft.Server{{ID: c.LocalID, Address: addr}}}
	if err := raft.BootstrapCluster(c, store, store, snapshots, wire, servers); err != nil {
		t.Fatal(err)
	}
	r, err := raft.NewRaft(c, machine, store, store, snapshots, wire)
	if err != nil {
		t.Fatal(err)
	}
	if !<-r.LeaderCh() {
		t.Fatal("it does not lead")
	}
	down := make(chan struct{})
	const entries = 20 // so many that it is unlikely that all of them are applied at the end
	ends := make(chan error, entries)
	for range entries {
		future := r.Apply([]byte("x"), 0)
		go func() { ends <- Await(t.Context(), future, down) }()
	}
	<-machine.at
	end := r.Shutdown()
	close(machine.may)
	if err := end.Error(); err != nil {
		t.Fatal(err)
	}
	close(down)
	for i := range entries {
		select {
		case <-ends:
		case <-time.After(20 * time.Second):
			t.Fatalf("%d of %d wait on", entries-i, entries)
		}
	}
}
