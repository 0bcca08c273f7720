package raftlog

import (
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// server is a raft node with a Log.
type server struct {
	*raft.Raft
	l      *Log
	lock   chan struct{} // capacity 1: an append waits while the test holds it
	stored atomic.Uint64 // newest entry on the disk
	raft.Server
	*raft.InmemTransport
}

func newServer(t *testing.T, id raft.ServerID, closing chan struct{}) *server {
	t.Helper()
	s := &server{lock: make(chan struct{}, 1)}
	addr, trans := raft.NewInmemTransport("")
	s.InmemTransport, s.Server = trans, raft.Server{ID: id, Address: addr}
	disk := newHooked()
	disk.before = func(what string) error {
		if what == appends {
			s.lock <- struct{}{}
			<-s.lock
		}
		return nil
	}
	disk.frame = func(f frame, _ []*raft.Log) { s.stored.Store(f.first + uint64(f.count) - 1) }
	s.l = open(t, disk, Options{Closing: closing, Size: 64 << 10})
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger = id, hclog.New(&hclog.LoggerOptions{Output: io.Discard})
	var err error
	s.Raft, err = raft.NewRaft(cfg, &raft.MockFSM{}, s.l, s.l, raft.NewInmemSnapshotStore(), trans)
	if err != nil {
		t.Fatal(err)
	}
	s.l.Serve(s.Raft)
	return s
}

// durable fails the test if raft has committed more than the disk has.
func (s *server) durable(t *testing.T, when string) {
	t.Helper()
	synctest.Wait()
	has := s.stored.Load()
	if at := s.CommitIndex(); at > has {
		t.Errorf("%s entry %d is committed, and the disk has the entries up to %d", when, at, has)
	}
}

// If one of two voters is removed, the other one commits on its own, also what is before the change.
func TestRemovingTheOtherVoter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closing := make(chan struct{})
		a, b := newServer(t, "a", closing), newServer(t, "b", closing)
		a.Connect(b.Server.Address, b.InmemTransport)
		b.Connect(a.Server.Address, a.InmemTransport)
		if err := a.BootstrapCluster(raft.Configuration{Servers: []raft.Server{a.Server}}).Error(); err != nil {
			t.Fatal(err)
		}
		for a.State() != raft.Leader {
			time.Sleep(time.Second)
		}
		a.lock <- struct{}{}
		alone := a.Apply([]byte("alone"), 0)
		a.durable(t, "with one voter")
		<-a.lock
		if err := alone.Error(); err != nil {
			t.Fatal(err)
		}
		if err := a.AddVoter(b.ID, b.Server.Address, 0, 0).Error(); err != nil {
			t.Fatal(err)
		}
		if err := a.Apply([]byte("both"), 0).Error(); err != nil {
			t.Fatal(err)
		}

		a.DisconnectAll()
		b.lock <- struct{}{}
		a.lock <- struct{}{}
		before := a.CommitIndex()
		queued := a.Apply([]byte("queued"), 0)
		synctest.Wait()
		if a.LastIndex() == before {
			t.Error("the entry is not queued")
		}
		removed := a.RemoveServer(b.ID, 0, 0)
		a.durable(t, "while a voter is removed")
		<-a.lock
		<-b.lock
		if err := removed.Error(); err != nil {
			t.Fatal(err)
		}
		if err := queued.Error(); err != nil {
			t.Fatal(err)
		}
		a.durable(t, "in the end")
		close(closing)
		for _, s := range []*server{a, b} {
			if err := s.Raft.Shutdown().Error(); err != nil {
				t.Error(err)
			}
		}
	})
}
