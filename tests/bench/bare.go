package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
	raftboltdb "github.com/hashicorp/raft-boltdb/v2"
	"go.etcd.io/bbolt"

	node "osqueue/cluster"

	"osqueue/tests/measure"
)

// bareFollower is the argument by which this program runs as one of the two followers of the
// bare cluster: bare-follower NAME DIRECTORY. A follower writes its address to standard output
// and ends when standard input is closed.
const bareFollower = "bare-follower"

const (
	bareCallers    = singleClients
	bareEntryBytes = 64 // of one small job in an entry
)

// bare measures raft without osqueue.
func (b *bench) bare() error {
	dir, err := os.MkdirTemp("", "osqueue-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	leader, err := openBare("leader", dir, node.DefaultConfig().HeartbeatTimeout)
	if err != nil {
		return err
	}
	defer leader.close()
	members := []raft.Server{leader.server()}
	var followers []*follower
	defer func() {
		for _, f := range followers {
			f.stop()
		}
	}()
	for _, name := range []string{"f1", "f2"} {
		f, server, err := startFollower(name, dir)
		if err != nil {
			return err
		}
		followers = append(followers, f)
		members = append(members, server)
	}
	if err := leader.raft.BootstrapCluster(raft.Configuration{Servers: members}).Error(); err != nil {
		return err
	}
	if err := leader.awaitLeadership(); err != nil {
		return err
	}
	return b.measureBare(leader.raft)
}

func (b *bench) measureBare(r *raft.Raft) error {
	entry := make([]byte, bareEntryBytes)
	_, took, err := applyFor(r, entry, 1, b.duration)
	if err != nil {
		return err
	}
	b.bareP50 = took.At(50)
	b.report.add(figure{Section: "bare", Name: "one raft commit, p50", Value: measure.Milliseconds(b.bareP50), Unit: "ms"})
	b.report.add(figure{Section: "bare", Name: "one raft commit, p99", Value: measure.Milliseconds(took.At(99)), Unit: "ms"})
	if b.bareRate, _, err = applyFor(r, entry, bareCallers, b.duration); err != nil {
		return err
	}
	b.report.add(figure{Section: "bare", Name: "64 callers", Value: b.bareRate, Unit: "commits/s"})
	entries, _, err := applyFor(r, make([]byte, jobsInBatch*bareEntryBytes), batchClients, b.duration)
	if err != nil {
		return err
	}
	b.bareBatchRate = entries * jobsInBatch
	b.report.add(figure{Section: "bare", Name: "4 callers, entries of 100 jobs' size", Value: b.bareBatchRate, Unit: "jobs/s"})
	return nil
}

// applyFor lets callers commit entries for a duration.
func applyFor(r *raft.Raft, entry []byte, callers int, d time.Duration) (perSecond float64, took measure.Samples, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	begin := time.Now()
	for range callers {
		wg.Go(func() {
			var own measure.Samples
			var failed error
			for now := time.Now(); now.Sub(begin) < d && failed == nil; {
				failed = r.Apply(entry, requestTimeout).Error()
				next := time.Now()
				own = append(own, next.Sub(now))
				now = next
			}
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			if failed != nil {
				err = failed
			}
		})
	}
	wg.Wait()
	return float64(len(took)) / time.Since(begin).Seconds(), took, err
}

// bareNode is raft with the settings of package cluster, and a state machine that does nothing.
type bareNode struct {
	name  string
	store *raftboltdb.BoltStore
	net   *raft.NetworkTransport
	raft  *raft.Raft
}

func openBare(name, dir string, heartbeat time.Duration) (*bareNode, error) {
	n := &bareNode{name: name}
	var err error
	n.store, err = raftboltdb.New(raftboltdb.Options{
		Path:        filepath.Join(dir, name+".db"),
		BoltOptions: &bbolt.Options{NoFreelistSync: true, FreelistType: bbolt.FreelistMapType},
	})
	if err != nil {
		return nil, err
	}
	logs, err := raft.NewLogCache(1024, n.store)
	if err != nil {
		return nil, err
	}
	log := hclog.NewNullLogger()
	n.net, err = raft.NewTCPTransportWithConfig("127.0.0.1:0", nil,
		&raft.NetworkTransportConfig{MaxPool: 3, MaxRPCsInFlight: 1, Timeout: requestTimeout, Logger: log})
	if err != nil {
		return nil, err
	}
	its := node.DefaultConfig()
	c := raft.DefaultConfig()
	c.LocalID = raft.ServerID(name)
	c.HeartbeatTimeout, c.ElectionTimeout, c.LeaderLeaseTimeout = heartbeat, heartbeat, its.LeaseTimeout
	c.SnapshotThreshold, c.SnapshotInterval, c.TrailingLogs = its.SnapshotThreshold, its.SnapshotInterval, its.TrailingLogs
	c.BatchApplyCh = true
	c.Logger = log
	n.raft, err = raft.NewRaft(c, nothing{}, logs, n.store, raft.NewInmemSnapshotStore(), n.net)
	return n, err
}

func (n *bareNode) server() raft.Server {
	return raft.Server{ID: raft.ServerID(n.name), Address: n.net.LocalAddr()}
}

func (n *bareNode) close() {
	_ = n.raft.Shutdown().Error() // it is at its end either way
	_ = n.net.Close()
	_ = n.store.Close()
}

func (n *bareNode) awaitLeadership() error {
	select {
	case <-n.raft.LeaderCh():
		return n.raft.Barrier(requestTimeout).Error()
	case <-time.After(requestTimeout):
		return errors.New("the bare cluster elects no leader")
	}
}

// nothing is a state machine without state.
type nothing struct{}

// Apply implements raft.FSM.
func (nothing) Apply(*raft.Log) any { return nil }

// Snapshot implements raft.FSM.
func (nothing) Snapshot() (raft.FSMSnapshot, error) { return nothing{}, nil }

// Restore implements raft.FSM.
func (nothing) Restore(r io.ReadCloser) error { return r.Close() }

// Persist implements raft.FSMSnapshot.
func (nothing) Persist(s raft.SnapshotSink) error { return s.Close() }

// Release implements raft.FSMSnapshot.
func (nothing) Release() {}

// follower is one of the other two processes.
type follower struct {
	cmd   *exec.Cmd
	stdin io.Closer
}

func startFollower(name, dir string) (*follower, raft.Server, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, raft.Server{}, err
	}
	f := &follower{cmd: exec.Command(self, bareFollower, name, dir)}
	f.cmd.Stderr = os.Stderr
	if f.stdin, err = f.cmd.StdinPipe(); err != nil {
		return nil, raft.Server{}, err
	}
	out, err := f.cmd.StdoutPipe()
	if err != nil {
		return nil, raft.Server{}, err
	}
	if err := f.cmd.Start(); err != nil {
		return nil, raft.Server{}, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		f.stop()
		return nil, raft.Server{}, fmt.Errorf("follower %s: %w", name, err)
	}
	return f, raft.Server{ID: raft.ServerID(name), Address: raft.ServerAddress(line[:len(line)-1])}, nil
}

func (f *follower) stop() {
	_ = f.stdin.Close()
	_ = f.cmd.Wait() // how it ends does not matter
}

// followerTimeout prevents the followers from becoming candidates.
const followerTimeout = 10 * time.Second

func runBareFollower(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("%s wants a name and a directory", bareFollower)
	}
	n, err := openBare(args[0], args[1], followerTimeout)
	if err != nil {
		return err
	}
	defer n.close()
	fmt.Println(n.net.LocalAddr())
	_, _ = io.Copy(io.Discard, os.Stdin)
	return nil
}
