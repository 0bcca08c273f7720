package cluster

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/queuefile"
)

// A document that this cluster adopts lacks what the cluster has acknowledged and not
// flushed before another broker took the document over. carry brings it into the state
// that is adopted:
//
//   - A job that the document has never had is enqueued there. If it has completed, or was
//     cancelled, it has in the adopted state, too, with its result.
//   - A job that the document had, and that has completed or was cancelled here since, ends
//     so in the adopted state, unless it has ended or was claimed there.
//   - A job that the document had and has no more has ended there. It does not run again.
//   - A job of a schedule is left out if the schedule exists there: its times count there.
//
// The other jobs are kept as a copy (keepJobs): those that were dead, those that the state
// refuses, those that ended here while they ran there, and all that have not ended if the
// document does not say what it had of this cluster's.

// fork is the last point of this cluster's history that a document contains.
type fork struct {
	seq   uint64 // of the youngest job
	token uint64 // the last fencing token
	now   int64  // the queue's time, ms
}

// forkOf returns where the history of a document left that of v. known is false if the
// document does not say it.
func forkOf(doc *queuefile.Document, v *fsm.View, cluster string) (f fork, known bool) {
	m, h := v.Meta(), doc.Header
	if h.Cluster == cluster {
		// Another broker of this cluster's id: a legacy one, or the history is lost.
		return fork{seq: doc.OurSeq, token: m.Token, now: noDeadline}, doc.Overtaken
	}
	o, ok := h.Handover(cluster)
	if ok && m.Broker.Epoch <= o.Epoch && o.LSN().Compare(m.LSN) <= 0 && o.LSN().Compare(h.LSN()) <= 0 {
		return fork{seq: o.LastSeq, token: o.Token, now: o.Now}, true
	}
	// If v was adopted from this document before, and no broker of this cluster has
	// registered since, all that is younger was carried over then.
	return fork{seq: doc.Meta.LastSeq, token: doc.Meta.Token, now: m.Now}, m.Broker == doc.Meta.Broker && m.Now == doc.Meta.Now
}

var (
	endedStatuses = []fsm.Status{fsm.Completed, fsm.Cancelled, fsm.Dead}
	openStatuses  = []fsm.Status{fsm.Unclaimed, fsm.Scheduled, fsm.Blocked, fsm.InProgress}
	allStatuses   = slices.Concat(openStatuses, endedStatuses)
)

// carried is what became of the jobs of this cluster in a state that it adopts.
type carried struct {
	m     *fsm.Machine
	doc   *fsm.View  // m as the document has it
	jobs  int        // enqueued
	ended int        // of those that the document had, ended as here
	kept  []*fsm.Job // that are only in the copy

	batch []*fsm.Job          // to be enqueued
	ids   map[string]struct{} // of all that were in a batch
}

// carry brings the jobs of v that the document does not have into m, the state of the
// document.
func carry(m *fsm.Machine, doc *queuefile.Document, v *fsm.View, cluster string) *carried {
	c := &carried{m: m, doc: m.View(), ids: make(map[string]struct{})}
	meta := v.Meta()
	if doc.Header == nil || meta.Lineage == "" || doc.Header.Lineage != meta.Lineage ||
		doc.Overtaken && doc.Header.Cluster == cluster && doc.Header.LSN().Compare(meta.LSN) >= 0 {
		return c
	}
	f, known := forkOf(doc, v, cluster)
	if !known {
		// A state that was adopted from the document's broker, which has gone on since, is
		// as old as what was carried over into it. The other jobs are the document's.
		adopted := meta.Broker == doc.Meta.Broker
		v.Merged(openStatuses, 0, func(j *fsm.Job) bool {
			if m.Job(j.ID) == nil && (!adopted || j.CreatedAt == meta.Now) {
				c.kept = append(c.kept, j)
			}
			return true
		})
		return c
	}
	v.Merged(allStatuses, f.seq, func(j *fsm.Job) bool {
		c.add(j, f)
		return true
	})
	c.enqueue()
	v.Merged(endedStatuses, 0, func(j *fsm.Job) bool {
		if j.Seq <= f.seq && j.FinishedAt >= f.now {
			c.end(j, f)
		}
		return j.Seq <= f.seq
	})
	return c
}

// carryBatch is how many jobs are carried over by one step of the machine.
const carryBatch = 1000

// add takes a job that is younger than the fork.
func (c *carried) add(j *fsm.Job, f fork) {
	switch cron := j.Options().Cron; {
	case c.m.Job(j.ID) != nil:
		c.end(j, f)
	case cron != "" && c.doc.Cron(cron) != nil:
	case j.Status == fsm.Dead:
		c.kept = append(c.kept, j)
	default:
		c.batch = append(c.batch, j)
		c.ids[j.ID] = struct{}{}
		if len(c.batch) == carryBatch {
			c.enqueue()
		}
	}
}

// end lets a job that the state has end as it has here.
func (c *carried) end(j *fsm.Job, f fork) {
	there := c.m.Job(j.ID)
	switch {
	case there == nil || !slices.Contains(endedStatuses, j.Status) || slices.Contains(endedStatuses, there.Status):
	case there.Token > f.token || j.Status == fsm.Dead || c.apply(endAs(j))[0].Code != fsm.OK:
		c.kept = append(c.kept, j)
	default:
		c.ended++
	}
}

// endAs gives a job the end of j, which is not dead.
func endAs(j *fsm.Job) *fsmpb.Mutation {
	if j.Status == fsm.Completed {
		op := &fsmpb.ForceComplete{JobId: j.ID, Result: j.Result}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: op}}
	}
	op := &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Ids: []string{j.ID}}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

// enqueue carries the batch over. A job whose batch is gone comes in without.
func (c *carried) enqueue() {
	refused := c.try(c.try(c.batch, c.newJob), c.newJob) // some may wait for later ones
	c.kept = append(c.kept, c.try(refused, func(j *fsm.Job) *fsmpb.NewJob {
		n := c.newJob(j)
		n.After, n.Batch = nil, ""
		return n
	})...)
	c.batch = nil
}

// newJob asks for a job like j, which waits for those that j still waits for.
func (c *carried) newJob(j *fsm.Job) *fsmpb.NewJob {
	n := newJobOf(j)
	n.After = slices.DeleteFunc(slices.Clone(j.Details().Waits), func(id string) bool {
		_, coming := c.ids[id]
		return !coming && c.m.Job(id) == nil
	})
	return n
}

// try enqueues jobs, each for itself, and ends those that have ended. It returns those
// that are not in the state then.
func (c *carried) try(jobs []*fsm.Job, ask func(*fsm.Job) *fsmpb.NewJob) (refused []*fsm.Job) {
	if len(jobs) == 0 {
		return nil
	}
	asked := make([]*fsmpb.NewJob, len(jobs))
	for i, j := range jobs {
		asked[i] = ask(j)
	}
	c.apply(oneByOne(asked)...)
	for _, j := range jobs {
		switch {
		case c.m.Job(j.ID) == nil:
			refused = append(refused, j)
			continue
		case !slices.Contains(openStatuses, j.Status):
			c.apply(endAs(j))
		}
		c.jobs++
	}
	return refused
}

// apply changes the state at its own time.
func (c *carried) apply(ms ...*fsmpb.Mutation) []fsm.Result {
	at := c.m.Meta()
	return c.m.Apply(at.LSN.Index+1, at.LSN.Term-at.TermBase, &fsmpb.Batch{NowMs: at.Now, Mutations: ms})
}

// keptFile is how many jobs go into one object of a copy.
const keptFile = 1000

// keepJobs puts jobs that cannot be carried over aside, each with its payload and result,
// and returns the key of the first object. The keys follow from the content: when an
// adoption is tried again, nothing is kept twice.
func (n *Node) keepJobs(ctx context.Context, jobs []*fsm.Job) (first string, err error) {
	at := n.replica.meta()
	for part := range slices.Chunk(jobs, keptFile) {
		data := queuefile.EncodeJobs(part, fmt.Sprintf("cluster %s acknowledged these jobs up to %s; "+
			"the document that it adopted does not have them, and they could not be carried over", n.clusterID(), at.LSN))
		key := fmt.Sprintf("conflicts/%s-jobs-%.8x.json", at.LSN, sha256.Sum256(data))
		if w := n.cfg.Bucket.PutIfAbsent(ctx, key, data); w.Outcome == storage.Unknown {
			return "", fmt.Errorf("keep jobs as %s: %s: %w", key, w.Outcome, w.Err)
		}
		if first == "" {
			first = key
		}
	}
	return first, nil
}

// Carried counts, since this process started, the jobs that this cluster had acknowledged
// and a document that this node adopted did not have.
type Carried struct {
	Jobs  int    // carried over
	Ended int    // of those that the document had, ended as they had here
	Kept  int    // not carried over: kept as a copy
	Copy  string // key of the newest copy; "" for none
}

// noteCarried counts what was carried over, when the state is adopted.
func (n *Node) noteCarried(c *carried, copied string) {
	if c.jobs+c.ended+len(c.kept) == 0 {
		return
	}
	sum := Carried{Jobs: c.jobs, Ended: c.ended, Kept: len(c.kept), Copy: copied}
	if before := n.carried.Load(); before != nil {
		sum.Jobs, sum.Ended, sum.Kept = sum.Jobs+before.Jobs, sum.Ended+before.Ended, sum.Kept+before.Kept
		if copied == "" {
			sum.Copy = before.Copy
		}
	}
	n.carried.Store(&sum)
	log := n.log.Warn
	if len(c.kept) > 0 {
		log = n.log.Error
	}
	log("this cluster had acknowledged jobs that the adopted document did not have",
		"carried_over", c.jobs, "ended_as_here", c.ended, "only_in_the_copy", len(c.kept), "copy", copied)
}
