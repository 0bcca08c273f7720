package leader

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/document"
)

// A document that this cluster adopts lacks the changes that the cluster acknowledged and
// had not flushed when another broker took the document over. carry brings them into the
// adopted state:
//
//   - A job that the document never had is enqueued. If it has completed or was cancelled here,
//     it also is in the adopted state, with its result.
//   - A job that the document had, and that has completed or was cancelled here since, gets the
//     same end in the adopted state, unless it has ended or was claimed there.
//   - A job that the document had and no longer has, has ended there. It does not run again.
//   - A job of a schedule is left out if the schedule exists there: its times count there.
//
// The other jobs are only stored as a copy (keepJobs): dead jobs, jobs that the adopted
// state refuses, jobs that ended here while they ran there, and all jobs that have not
// ended if the document does not say up to which point it has this cluster's history.

// fork is the last point of this cluster's history that a document contains.
type fork struct {
	seq   uint64 // sequence number of the youngest job
	token uint64 // last fencing token
	now   int64  // queue's time, ms
}

// forkOf returns the point where the history of a document left that of v. known is false
// if the document does not say it.
func forkOf(doc *document.File, v *fsm.View, cluster string) (f fork, known bool) {
	m, h := v.Meta(), doc.Header
	if h.Cluster == cluster {
		// Another broker with this cluster's id wrote the document: a legacy broker, or one
		// whose history is lost.
		return fork{seq: doc.OurSeq, token: m.Token, now: noDeadline}, doc.Overtaken
	}
	o, ok := h.Handover(cluster)
	if ok && m.Broker.Epoch <= o.Epoch && o.LSN().Compare(m.LSN) <= 0 && o.LSN().Compare(h.LSN()) <= 0 {
		return fork{seq: o.LastSeq, token: o.Token, now: o.Now}, true
	}
	// If v was adopted from this document, and no broker of this cluster has registered
	// since, all younger jobs were carried over at that time.
	return fork{seq: doc.Meta.LastSeq, token: doc.Meta.Token, now: m.Now}, m.Broker == doc.Meta.Broker && m.Now == doc.Meta.Now
}

var (
	endedStatuses = []fsm.Status{fsm.Completed, fsm.Cancelled, fsm.Dead}
	openStatuses  = []fsm.Status{fsm.Unclaimed, fsm.Scheduled, fsm.Blocked, fsm.InProgress}
	allStatuses   = slices.Concat(openStatuses, endedStatuses)
)

// carried collects the result of carrying the jobs of this cluster over into the state m.
type carried struct {
	m     *fsm.Machine
	doc   *fsm.View  // state of the document, before the changes to m
	jobs  int        // number of jobs enqueued
	ended int        // number of the document's jobs that got the end that they had here
	kept  []*fsm.Job // jobs that are only in the copy

	batch []*fsm.Job          // jobs to enqueue next
	ids   map[string]struct{} // ids of all jobs that were in a batch
}

// carry brings the jobs of v that the document lacks into m, the state of the document.
func carry(m *fsm.Machine, doc *document.File, v *fsm.View, cluster string) *carried {
	c := &carried{m: m, doc: m.View(), ids: make(map[string]struct{})}
	meta := v.Meta()
	if doc.Header == nil || meta.Lineage == "" || doc.Header.Lineage != meta.Lineage ||
		doc.Overtaken && doc.Header.Cluster == cluster && doc.Header.LSN().Compare(meta.LSN) >= 0 {
		return c
	}
	f, known := forkOf(doc, v, cluster)
	if !known {
		// If v was adopted from the document's broker, which has continued since, the jobs
		// that were carried over then have the creation time of v. All other jobs of v came
		// from the document.
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
		if j.Seq <= f.seq && j.Execution().FinishedAt >= f.now {
			c.end(j, f)
		}
		return j.Seq <= f.seq
	})
	return c
}

// carryBatch is the number of jobs that one step of the machine carries over.
const carryBatch = 1000

// add carries over or keeps a job that is younger than the fork.
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

// end gives the job in m the end that j has here. If that is not possible, it keeps j for
// the copy.
func (c *carried) end(j *fsm.Job, f fork) {
	there := c.m.Job(j.ID)
	switch {
	case there == nil || !slices.Contains(endedStatuses, j.Status) || slices.Contains(endedStatuses, there.Status):
	case there.Execution().Token > f.token || j.Status == fsm.Dead || c.apply(endAs(j))[0].Code != fsm.OK:
		c.kept = append(c.kept, j)
	default:
		c.ended++
	}
}

// endAs returns the mutation that gives a job the end of j, which is completed or
// cancelled.
func endAs(j *fsm.Job) *fsmpb.Mutation {
	if j.Status == fsm.Completed {
		op := &fsmpb.ForceComplete{JobId: j.ID, Result: j.Execution().Result}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: op}}
	}
	op := &fsmpb.Change{Kind: uint32(fsm.CancelJobs), Ids: []string{j.ID}}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: op}}
}

// enqueue carries the batch over. If the workflow batch of a job is gone, it enqueues the
// job without the batch and without the jobs that it waits for.
func (c *carried) enqueue() {
	refused := c.try(c.try(c.batch, c.newJob), c.newJob) // the second time, because a job may wait for a later one
	c.kept = append(c.kept, c.try(refused, func(j *fsm.Job) *fsmpb.NewJob {
		n := c.newJob(j)
		n.After, n.Batch = nil, ""
		return n
	})...)
	c.batch = nil
}

// newJob returns the mutation to enqueue a job like j. It waits only for those jobs of j
// that are in m or in a batch.
func (c *carried) newJob(j *fsm.Job) *fsmpb.NewJob {
	n := newJobOf(j)
	n.After = slices.DeleteFunc(slices.Clone(j.Details().Waits), func(id string) bool {
		_, coming := c.ids[id]
		return !coming && c.m.Job(id) == nil
	})
	return n
}

// try enqueues each job on its own, and then ends the jobs that have ended here. It
// returns the jobs that are not in m afterwards.
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

// apply applies mutations to m without advancing its time.
func (c *carried) apply(ms ...*fsmpb.Mutation) []fsm.Result {
	at := c.m.Meta()
	return c.m.Apply(at.LSN.Index+1, at.LSN.Term-at.TermBase, &fsmpb.Batch{NowMs: at.Now, Mutations: ms})
}

// keptFile is the number of jobs in one object of a copy.
const keptFile = 1000

// keepJobs stores jobs that cannot be carried over under conflicts/, with payloads and
// results. It returns the key of the first object. The keys are derived from the content,
// so a repeated adoption stores nothing twice.
func (l *Leader) keepJobs(ctx context.Context, jobs []*fsm.Job) (first string, err error) {
	at := l.meta()
	for part := range slices.Chunk(jobs, keptFile) {
		data := document.EncodeJobs(part, fmt.Sprintf("cluster %s acknowledged these jobs up to %s; "+
			"the document that it adopted does not have them, and they could not be carried over", l.do.ClusterID(), at.LSN))
		key := fmt.Sprintf("conflicts/%s-jobs-%.8x.json", at.LSN, sha256.Sum256(data))
		if w := l.cfg.Bucket.PutIfAbsent(ctx, key, data); w.Outcome == storage.Unknown {
			return "", fmt.Errorf("keep jobs as %s: %s: %w", key, w.Outcome, w.Err)
		}
		if first == "" {
			first = key
		}
	}
	return first, nil
}

// Carried counts the jobs that this cluster had acknowledged and that a document that
// this node adopted lacked, since this process started.
type Carried struct {
	Jobs  int    // carried over
	Ended int    // jobs of the document that got the end that they had here
	Kept  int    // not carried over, only stored as a copy
	Copy  string // key of the newest copy; "" for none
}

// noteCarried adds the result of an adoption to Carried, and logs it.
func (l *Leader) noteCarried(c *carried, copied string) {
	if c.jobs+c.ended+len(c.kept) == 0 {
		return
	}
	sum := Carried{Jobs: c.jobs, Ended: c.ended, Kept: len(c.kept), Copy: copied}
	if before := l.carried.Load(); before != nil {
		sum.Jobs, sum.Ended, sum.Kept = sum.Jobs+before.Jobs, sum.Ended+before.Ended, sum.Kept+before.Kept
		if copied == "" {
			sum.Copy = before.Copy
		}
	}
	l.carried.Store(&sum)
	log := l.log.Warn
	if len(c.kept) > 0 {
		log = l.log.Error
	}
	log("this cluster had acknowledged jobs that the adopted document did not have",
		"carried_over", c.jobs, "ended_as_here", c.ended, "only_in_the_copy", len(c.kept), "copy", copied)
}
