package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/cluster/snapshot"
)

// A new node that finds a running cluster fetches the newest snapshot of that cluster
// from the bucket before it starts raft. The leader then has to send only the log behind
// the snapshot, and not the whole state. If that fails for any reason, the node starts
// empty, and the leader sends everything.

// seedTimeout bounds how long fetching the snapshot may delay the start of a new node.
const seedTimeout = 2 * time.Minute

func (n *Node) seed() {
	if n.cfg.RaftLog == RaftLogMemory || len(n.cfg.Peers) < 2 {
		return
	}
	ctx, cancel := context.WithTimeout(n.ctx, seedTimeout)
	defer cancel()
	peers, _ := n.askPeers(ctx) // peers that do not answer are skipped
	var errs []error
	for _, p := range peers {
		if p.Empty || p.Cluster == "" {
			continue
		}
		meta, err := snapshot.Fetch(ctx, n.cfg.Bucket, n.cfg.DataDir, p.Cluster, snapshot.FetchOptions{
			Accept: func(ctx context.Context, m raft.SnapshotMeta) error { return n.vouched(ctx, p.HTTPAddress, m) },
			Logger: n.log.Named("snapshot"),
		})
		if err == nil {
			n.log.Info("this new node starts from a snapshot in the bucket", "index", meta.Index, "bytes", meta.Size)
			return
		}
		errs = append(errs, err)
	}
	if len(errs) > 0 {
		n.log.Info("this new node gets its state from the leader, not from the bucket", "reason", errors.Join(errs...))
	}
}

// vouched asks the node at address to confirm that it leads the cluster and that the
// snapshot is part of its history. It returns nil if the node confirms it.
func (n *Node) vouched(ctx context.Context, address string, m raft.SnapshotMeta) error {
	url := fmt.Sprintf("http://%s%shistory/%d/%d", address, PeerPath, m.Term, m.Index)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	return n.call(req, nil)
}

// serveHistory answers whether this node's log continues after an entry. Only the leader
// may answer: another node may have been left behind when the cluster was recovered from
// a minority, and its log may contain a lost history.
func (n *Node) serveHistory(w http.ResponseWriter, r *http.Request) {
	term, badTerm := strconv.ParseUint(r.PathValue("term"), 10, 64)
	index, badIndex := strconv.ParseUint(r.PathValue("index"), 10, 64)
	switch {
	case badTerm != nil || badIndex != nil:
		writeJSON(w, http.StatusBadRequest, refusal{Message: errors.Join(badTerm, badIndex).Error()})
	case n.raft.State() != raft.Leader:
		writeJSON(w, http.StatusMisdirectedRequest, refusal{Message: ErrNotLeader.Error(), Leader: n.leaderHTTP()})
	case !snapshot.Agrees(n.stores.log, n.raft.CommitIndex(), term, index):
		writeJSON(w, http.StatusConflict, refusal{Message: "the log of this node does not go on from there"})
	default:
		w.WriteHeader(http.StatusNoContent)
	}
}

func (n *Node) snapshotOptions() snapshot.Options {
	return snapshot.Options{
		Dir:            n.cfg.DataDir,
		Bucket:         n.cfg.Bucket,
		Node:           n.cfg.Name,
		Cluster:        func() string { return n.replica.meta().Cluster },
		UploadInterval: n.cfg.UploadInterval,
		Slack:          n.cfg.TrailingLogs,
		Clock:          n.cfg.Clock,
		Logger:         n.log.Named("snapshot"),
		Damaged: func(error) {
			select {
			case n.mend <- struct{}{}:
			default:
			}
		},
	}
}

// mendSnapshots makes raft take a new snapshot each time n.mend signals that the one on
// the disk is damaged. It runs until the node is closed.
func (n *Node) mendSnapshots() {
	for {
		select {
		case <-n.mend:
		case <-n.ctx.Done():
			return
		}
		if err := n.await(n.ctx, n.raft.Snapshot()); err != nil && n.ctx.Err() == nil {
			n.log.Warn("no new snapshot could be made in the place of the damaged one", "error", err)
		}
	}
}
