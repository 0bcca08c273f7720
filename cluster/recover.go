package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"

	"osqueue/cluster/flush"
	"osqueue/cluster/membership"
	"osqueue/cluster/raftlog"
	"osqueue/cluster/snapshot"
	"osqueue/fsm"
)

// Survivor is what the disk of a node has, whose cluster has lost its majority.
type Survivor struct {
	Dir     string
	Server  raft.ServerID
	LSN     fsm.LSN // of the newest entry in the log, which may not be committed
	Cluster string
	Members []raft.Server // of the newest configuration in the log
	// Listening are the other members at whose raft addresses something listens.
	Listening []raft.ServerID
}

// Recover reads a data directory whose node does not run. With only it then makes the node the only member of its
// cluster, so that it continues from what its disk has: all entries in the log count as committed. It refuses that while
// another member listens. It may be cut at any moment and repeated.
func Recover(ctx context.Context, dir string, only bool, log hclog.Logger) (s Survivor, err error) {
	if !membership.HasID(dir) {
		return s, fmt.Errorf("%s is not the data directory of a node", dir)
	}
	s.Dir = dir
	if s.Server, err = membership.ReadID(dir); err != nil {
		return s, err
	}
	logs, err := raftlog.OpenDir(dir, raftlog.Options{Logger: log})
	if err != nil {
		return s, fmt.Errorf("%w (is the node stopped?)", err)
	}
	defer func() { err = errors.Join(err, logs.Close()) }()
	store, err := snapshot.New(snapshot.Options{Dir: dir, Logger: log})
	if err == nil {
		err = store.Prepare(logs)
	}
	if err != nil {
		return s, err
	}
	snapshots := logs.Snapshots(store)
	if err := logs.Witness(s.Server, dir); err != nil {
		return s, err
	}
	if err := s.replay(logs, snapshots); err != nil {
		return s, fmt.Errorf("%s: %w", filepath.Clean(dir), err)
	}
	own, member := raft.Server{}, false
	for _, o := range s.Members {
		switch {
		case o.ID == s.Server:
			own, member = o, true
		case listensAt(ctx, string(o.Address)):
			s.Listening = append(s.Listening, o.ID)
		}
	}
	switch {
	case !only:
		return s, nil
	case !member:
		return s, fmt.Errorf("%s is not a member of its cluster any more: choose another disk", s.Server)
	case len(s.Listening) > 0:
		return s, fmt.Errorf("%v still listen: they may have a majority; start this node as usual if they have, or stop them first", s.Listening)
	}
	own.Suffrage = raft.Voter
	_, trans := raft.NewInmemTransport(own.Address)
	cfg := raft.DefaultConfig()
	cfg.LocalID, cfg.Logger = s.Server, log
	state, broken := replayed()
	if err := raft.RecoverCluster(cfg, state, logs, logs, snapshots, trans, raft.Configuration{Servers: []raft.Server{own}}); err != nil {
		return s, fmt.Errorf("make %s the only member: %w", s.Server, err)
	}
	return s, *broken
}

// replayed returns a state without a node, and the error of an entry that it cannot apply.
func replayed() (*replica, *error) {
	broken := new(error)
	return newReplica(flush.NewUnflushedLog(1), func(err error) { *broken = err }), broken
}

// replay reads the newest snapshot and the log behind it.
func (s *Survivor) replay(logs raft.LogStore, snapshots raft.SnapshotStore) error {
	state, broken := replayed()
	all, err := snapshots.List()
	if err != nil {
		return err
	}
	var at uint64
	if len(all) > 0 {
		_, source, err := snapshots.Open(all[0].ID)
		if err != nil {
			return err
		}
		if err := state.Restore(source); err != nil {
			return err
		}
		at, s.Members = all[0].Index, all[0].Configuration.Servers
	}
	last, err := logs.LastIndex()
	if err != nil {
		return err
	}
	for at++; at <= last && *broken == nil; at++ {
		var e raft.Log
		if err := logs.GetLog(at, &e); err != nil {
			return fmt.Errorf("read log entry %d: %w", at, err)
		}
		switch e.Type {
		case raft.LogCommand:
			state.Apply(&e)
		case raft.LogConfiguration:
			s.Members = raft.DecodeConfiguration(e.Data).Servers
		}
	}
	meta := state.meta()
	s.LSN, s.Cluster = meta.LSN(), meta.Cluster
	return *broken
}

// listensAt reports whether something listens at an address.
func listensAt(ctx context.Context, address string) bool {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var d net.Dialer
	c, err := d.DialContext(ctx, "tcp", address)
	if err == nil {
		_ = c.Close()
	}
	return err == nil
}
