package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// bucketTimeout bounds each round of a campaign: one read and one write of the
// document, and the settling of what stayed unknown.
const bucketTimeout = 10 * time.Second

// campaign is one attempt to win the document (architecture: the fence). It
// returns a reign, or how long to wait before the next attempt and why.
func (n *Node) campaign(ctx context.Context) (*reign, time.Duration, error) {
	term, err := n.caughtUp(ctx)
	if err != nil {
		return nil, n.cfg.Flush.ConflictBackoff, err
	}
	n.setFence(FenceStandby, "reading the document in the bucket")
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout+applyTimeout)
	defer cancel()
	var adopted storage.Version
	for {
		seen, err := election.Read(ctx, n.cfg.Bucket, DocumentKey)
		if err != nil {
			n.setFence(FenceStandby, err.Error())
			return nil, time.Second, fmt.Errorf("read the document: %w", err)
		}
		me := n.candidacy(adopted)
		now := max(time.Now().UnixMilli(), n.replica.meta().Now)
		d := election.Decide(seen, me, now, n.cfg.BrokerTimeout.Milliseconds())
		switch d.Action {
		case election.Create, election.TakeOver:
			return n.takeOver(ctx, term, seen, me, now)
		case election.Adopt:
			if err := n.adopt(ctx, seen.Doc); err != nil {
				return nil, time.Second, fmt.Errorf("adopt the document: %w", err)
			}
			adopted = seen.Version
		case election.Refuse:
			n.setFence(FenceRefused, d.Reason)
			return nil, n.cfg.StandbyRetry, errors.New(d.Reason)
		default:
			n.setFence(FenceStandby, d.Reason)
			return nil, n.standbyWait(seen, now), errors.New(d.Reason)
		}
	}
}

// candidacy describes this node to the election.
func (n *Node) candidacy(adopted storage.Version) election.Candidate {
	v := n.replica.freeze()
	m := v.Meta()
	counts := v.Counts()
	return election.Candidate{
		Node:      n.cfg.Name,
		Address:   n.cfg.HTTPAdvertise,
		Cluster:   n.clusterID(),
		Lineage:   m.Lineage,
		LSN:       fsm.LSN{Term: n.raft.CurrentTerm() + m.TermBase, Index: m.LSN.Index},
		Populated: m.Lineage != "" || counts != fsm.Counts{},
		Adopted:   adopted,
	}
}

// clusterID is the cluster's identity as the log has it; before the first
// broker it follows from the members, alike on every node.
func (n *Node) clusterID() string {
	if id := n.replica.meta().Cluster; id != "" {
		return id
	}
	return firstClusterID(n.raft.GetConfiguration().Configuration())
}

func (n *Node) takeOver(ctx context.Context, term uint64, seen election.Observed, me election.Candidate, now int64) (*reign, time.Duration, error) {
	backoff := n.cfg.Flush.ConflictBackoff
	fence, err := election.Acquire(ctx, n.cfg.Bucket, DocumentKey, seen, me, n.replica.freeze(), now)
	if errors.Is(err, election.ErrConflict) {
		return nil, backoff, err
	}
	if err != nil {
		n.setFence(FenceStandby, err.Error())
		return nil, time.Second, fmt.Errorf("take the document over: %w", err)
	}
	r, err := n.inaugurate(ctx, term, fence)
	if err != nil {
		return nil, backoff, err
	}
	return r, 0, nil
}

// standbyWait is how long a standby sleeps: until the other's heartbeat would
// be stale, but never longer than StandbyRetry.
func (n *Node) standbyWait(seen election.Observed, now int64) time.Duration {
	if seen.Doc == nil {
		return time.Second
	}
	stale := time.Duration(seen.Doc.BrokerHeartbeat-now)*time.Millisecond + n.cfg.BrokerTimeout + 10*time.Millisecond
	return min(max(stale, n.cfg.Flush.ConflictBackoff), n.cfg.StandbyRetry)
}

// adopt replaces the cluster's state by the document's, on every node, through
// raft. The adoption is a step of its own in the lineage's history: the LSN
// goes on from the document's, so that no two states share one.
func (n *Node) adopt(ctx context.Context, doc *queuefile.Document) error {
	n.log.Info("adopting the document in the bucket", "lsn", doc.Meta.LSN, "jobs", len(doc.Jobs), "lineage", doc.Meta.Lineage)
	doc.Meta.Cluster = n.clusterID()
	doc.Meta.LSN.Index++
	doc.Meta.TermBase = 0
	if term := n.raft.CurrentTerm(); doc.Meta.LSN.Term > term {
		doc.Meta.TermBase = doc.Meta.LSN.Term - term
	}
	m, err := doc.Machine()
	if err != nil {
		return err
	}
	var buf bytes.Buffer
	if err := m.View().Encode(&buf); err != nil {
		return err
	}
	meta := &raft.SnapshotMeta{
		Version: raft.SnapshotVersionMax,
		Index:   doc.Meta.LSN.Index,
		Term:    n.raft.CurrentTerm(),
		Size:    int64(buf.Len()),
	}
	timeout := bucketTimeout
	if deadline, ok := ctx.Deadline(); ok {
		timeout = time.Until(deadline)
	}
	if err := n.raft.Restore(meta, &buf, timeout); err != nil {
		return err
	}
	if doc.Header != nil && !doc.Overtaken {
		return nil
	}
	// An original broker has no successors to extend its leases for: what ran
	// out while it was dead goes back to the queue, as it would under itself.
	_, err = n.applyNow(ctx, newLeaderClock(time.Now, doc.Meta.Now).now())
	return err
}
