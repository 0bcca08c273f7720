package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/queuefile"
)

// bucketTimeout bounds one read or one write of the document in a campaign, including the
// reads that resolve an unknown outcome.
const bucketTimeout = 10 * time.Second

// campaign makes one attempt to acquire the document. It returns the leader term, or how
// long to wait before the next attempt and why. adopted is the version of the document
// whose state this node has adopted as raft's leader; the next attempt does not adopt it
// again.
func (n *Leader) campaign(ctx context.Context, adopted *storage.Version) (*Term, time.Duration, error) {
	term, err := n.caughtUp(ctx)
	if err != nil {
		return nil, n.cfg.Flush.ConflictBackoff, err
	}
	n.setFence(FenceStandby, "reading the document in the bucket")
	wasSet := false
	for {
		asked := time.Now()
		seen, err := n.readDocument(ctx)
		if err != nil {
			n.watch.Missed()
			n.setFence(FenceStandby, err.Error())
			return nil, time.Second, fmt.Errorf("read the document: %w", err)
		}
		me := n.asCandidate(*adopted)
		heard := election.Silence{
			For:     n.watch.Saw(seen, asked, n.cfg.BrokerTimeout/2),
			Timeout: n.cfg.BrokerTimeout,
			Now:     n.cfg.Clock(),

			Promised: seen.Doc.Promise(),
		}
		d := election.Decide(seen, me, heard)
		switch d.Action {
		case election.Create, election.TakeOver:
			if err := n.mayCreate(ctx, d.Action, &me); err != nil {
				return nil, n.cfg.StandbyRetry, err
			}
			if n.do.SetBack(ctx) {
				wasSet = true
				continue // with the new state
			}
			return n.takeOver(ctx, term, seen, me, wasSet)
		case election.Adopt:
			if err := n.Adopt(ctx, term, seen.Doc); err != nil {
				n.setFence(FenceStandby, err.Error())
				return nil, time.Second, fmt.Errorf("adopt the document: %w", err)
			}
			*adopted = seen.Version
		case election.Refuse:
			n.setFence(FenceRefused, d.Reason)
			return nil, n.cfg.StandbyRetry, errors.New(d.Reason)
		case election.StepDown:
			// If a majority follows a later term, VerifyLeader ends this leadership. If it
			// does not, no node of this cluster has written the document.
			if err := n.do.Verify(ctx); err != nil {
				return nil, n.cfg.Flush.ConflictBackoff, fmt.Errorf("%s; give up raft's leadership: %w", d.Reason, err)
			}
			d.Reason += ": " + election.CopyWarning(seen.Doc.Header.Node, d.Leader)
			fallthrough
		default:
			n.setFence(FenceStandby, d.Reason)
			n.announce(ctx)
			return nil, n.standbyWait(seen, heard), errors.New(d.Reason)
		}
	}
}

// nowMs returns the wall clock or the machine's time, whichever is later, in ms.
func (n *base) nowMs() int64 { return max(n.cfg.Clock().UnixMilli(), n.meta().Now) }

func (n *base) readDocument(ctx context.Context) (election.Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return election.Read(ctx, n.cfg.Bucket, DocumentKey)
}

// asCandidate describes this node and its state to package election.
func (n *Leader) asCandidate(adopted storage.Version) election.Candidate {
	v := n.do.Freeze()
	m := v.Meta()
	counts := v.Counts()
	return election.Candidate{
		Node:      n.cfg.Name,
		Address:   n.cfg.HTTPAdvertise,
		Cluster:   n.do.ClusterID(),
		Lineage:   m.Lineage,
		Epoch:     m.Broker.Epoch,
		LSN:       fsm.LSN{Term: n.do.Term() + m.TermBase, Index: m.LSN.Index},
		Applied:   m.LSN,
		Populated: m.Lineage != "" || counts != fsm.Counts{},
		Adopted:   adopted,
	}
}

// takeOver acquires the document and begins a leader term. wasSet says that the queue's
// time was set back just now.
func (n *Leader) takeOver(ctx context.Context, term uint64, seen election.Observed, me election.Candidate, wasSet bool) (*Term, time.Duration, error) {
	backoff := n.cfg.Flush.ConflictBackoff
	if err := n.keepAdded(ctx, seen.Doc, seen.Raw); err != nil {
		n.watch.Missed()
		n.setFence(FenceStandby, err.Error())
		return nil, time.Second, err
	}
	clock, limited := n.startClock(ctx, wasSet) // before the entries of takeIn, which count as time that has passed
	if err := n.takeIn(ctx, seen.Doc, n.proposeEarly); err != nil {
		return nil, backoff, fmt.Errorf("take in what was changed in the document by hand: %w", err)
	}
	first, err := n.firstContent(ctx, seen, me)
	if err != nil {
		n.watch.Missed()
		n.setFence(FenceStandby, err.Error())
		return nil, time.Second, err
	}
	acquire, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	now := n.nowMs() // a new reading: writing a checkpoint takes time
	fence, err := election.Acquire(acquire, n.cfg.Bucket, DocumentKey, seen, me, first, now)
	if errors.Is(err, election.ErrConflict) {
		return nil, backoff, err
	}
	if err != nil {
		n.watch.Missed()
		n.setFence(FenceStandby, err.Error())
		return nil, time.Second, fmt.Errorf("take the document over: %w", err)
	}
	r, err := n.beginTerm(ctx, term, fence, first, clock)
	if err != nil {
		return nil, backoff, err
	}
	r.behind.Store(limited)
	return r, 0, nil
}

// firstContent returns the content with which this node acquires the document. If the
// state is large and the bucket does not have it, writing the checkpoint takes a while.
func (n *Leader) firstContent(ctx context.Context, seen election.Observed, me election.Candidate) (*queuefile.Content, error) {
	lineage := me.Lineage
	if lineage == "" && seen.Doc != nil {
		lineage = seen.Doc.Lineage()
	}
	if lineage == "" {
		lineage = uuid.NewString()
	}
	adopted := me.Adopted != "" && me.Adopted == seen.Version
	return flush.First(ctx, n.cfg.Flush, n.cfg.Bucket, lineage, seen.Doc, n.do.Freeze(), adopted)
}

// standbyPolls is how often a standby reads the document within a broker timeout. It does
// not notice an outage of the bucket that is shorter than the time between two reads.
const standbyPolls = 4

// standbyWaitFloor is the least time between two reads of the document by a standby.
const standbyWaitFloor = 100 * time.Millisecond

// standbyWait returns how long a standby sleeps until it reads the document again.
func (n *Leader) standbyWait(seen election.Observed, heard election.Silence) time.Duration {
	wait := min(heard.Remaining(), heard.Timeout/standbyPolls, n.cfg.StandbyRetry)
	if seen.Doc != nil && seen.Doc.Overtaken { // the document's broker may follow the wall clock
		stale := time.UnixMilli(seen.Doc.BrokerHeartbeat).Add(heard.Timeout + 10*time.Millisecond).Sub(heard.Now)
		if stale > 0 {
			wait = min(wait, stale)
		}
	}
	return max(wait, standbyWaitFloor)
}

// Adopt replaces the state of the cluster by the state of the document, on every node,
// through raft. The adopted state gets a term of LSNs of its own: entries that the
// document's cluster had committed, and that no node has any more, must not share an LSN
// with later entries. Jobs that this cluster has acknowledged and the document lacks are
// carried over (carry.go).
func (n *Leader) Adopt(ctx context.Context, term uint64, doc *queuefile.Document) error {
	n.log.Info("adopting the document in the bucket", "lsn", doc.Meta.LSN, "large", doc.Large, "lineage", doc.Meta.Lineage)
	m, err := archive.Machine(ctx, n.cfg.Bucket, doc)
	if err != nil {
		return err
	}
	c := carry(m, doc, n.do.Freeze(), n.do.ClusterID())
	copied, err := n.keepJobs(ctx, c.kept)
	if err != nil {
		return err
	}
	flush.Adopt(m, n.do.ClusterID(), term, n.meta().LSN)
	if err := n.do.Restore(ctx, m.View(), term); err != nil {
		return err
	}
	n.noteCarried(c, copied)
	if doc.Header != nil && !doc.Overtaken {
		return nil
	}
	// No successor extends the leases of a legacy broker. Leases that expired while it was
	// dead expire now, and the jobs return to the queue, as they would if that broker had
	// continued.
	clock, _ := n.startClock(ctx, false)
	_, err = n.Apply(ctx, clock.now())
	return err
}
