package leader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	"osqueue/fsm"
	"osqueue/fsm/answers"
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
//   - Schedules, settings, rules of limits, access tokens, hooks and request keys are not carried over; a copy
//     has those that differ (rest).
//
// The other jobs are only stored as a copy (keep): dead jobs, jobs that the adopted
// state refuses, jobs that ended here while they ran there, jobs of a request that the other
// cluster has answered, too, and all jobs that have not ended if the document does not say up to
// which point it has this cluster's history.

// fork is the last point of this cluster's history that a document contains.
type fork struct {
	seq   uint64 // sequence number of the youngest job
	token uint64 // last fencing token
	now   int64  // queue's time, ms
	lsn   fsm.LSN
}

// forkOf returns the point where the history of a document left that of v. known is false
// if the document does not say it.
func forkOf(doc *document.File, v *fsm.View, cluster string) (f fork, known bool) {
	m, h := v.Meta(), doc.Header
	if h.Cluster == cluster {
		// Another broker with this cluster's id wrote the document, or its history is lost.
		return fork{}, false
	}
	o, ok := h.Handover(cluster)
	if ok && m.Epoch <= o.Epoch && o.LSN().Compare(m.LSN()) <= 0 && o.LSN().Compare(h.LSN()) <= 0 {
		return fork{seq: o.LastSeq, token: o.Token, now: o.Now, lsn: o.LSN()}, true
	}
	// If v was adopted from this document, and no broker of this cluster has registered
	// since, all younger jobs were carried over at that time.
	f = fork{seq: h.LastSeq, token: h.LastToken, now: m.NowMs, lsn: h.LSN()}
	return f, m.Epoch == h.Registered && m.NowMs == h.Now
}

var (
	endedStatuses = []fsm.Status{fsm.Completed, fsm.Cancelled, fsm.Expired, fsm.Dead}
	openStatuses  = []fsm.Status{fsm.Unclaimed, fsm.Scheduled, fsm.Blocked, fsm.InProgress}
	allStatuses   = slices.Concat(openStatuses, endedStatuses)
)

// carried collects the result of carrying the jobs of this cluster over into the state m.
type carried struct {
	m     *fsm.Machine
	doc   *fsm.View  // state of the document, before the changes to m
	own   *fsm.View  // state of this cluster
	jobs  int        // number of jobs enqueued
	ended int        // number of the document's jobs that got the end that they had here
	kept  []*fsm.Job // jobs that are only in the copy

	records  document.Records    // that are only in the copy
	repeated map[string]struct{} // ids of jobs of requests that both clusters have answered

	batch []*fsm.Job          // jobs to enqueue next
	ids   map[string]struct{} // ids of all jobs that were in a batch
}

// carry brings the jobs of v that the document lacks into m, the state of the document.
func carry(m *fsm.Machine, doc *document.File, v *fsm.View, cluster string) *carried {
	c := &carried{m: m, doc: m.View(), own: v, ids: make(map[string]struct{}), repeated: make(map[string]struct{})}
	meta := v.Meta()
	if doc.Header == nil || meta.Lineage == "" || doc.Header.Lineage != meta.Lineage {
		return c
	}
	f, known := forkOf(doc, v, cluster)
	if !known {
		// If v was adopted from the document's broker, which has continued since, the jobs
		// that were carried over then have the creation time of v. All other jobs of v came
		// from the document.
		adopted := meta.Epoch == doc.Header.Registered
		v.List(fsm.Index{}, openStatuses, 0, func(j *fsm.Job) bool {
			if m.Job(j.ID) == nil && (!adopted || j.CreatedAt == meta.NowMs) {
				c.kept = append(c.kept, j)
			}
			return true
		})
		c.rest(v, fork{})
		return c
	}
	c.findRepeated(v, f)
	v.List(fsm.Index{}, allStatuses, f.seq, func(j *fsm.Job) bool {
		c.add(j, f)
		return true
	})
	c.enqueue()
	v.List(fsm.Index{}, endedStatuses, 0, func(j *fsm.Job) bool {
		if j.Seq <= f.seq && j.Execution().FinishedAt >= f.now {
			c.end(j, f)
		}
		return j.Seq <= f.seq
	})
	c.endRemoved(v, f)
	c.rest(v, f)
	return c
}

// carryBatch is the number of jobs that one step of the machine carries over.
const carryBatch = 1000

// add carries over or keeps a job that is younger than the fork.
func (c *carried) add(j *fsm.Job, f fork) {
	_, repeated := c.repeated[j.ID]
	switch cron := j.Options().Cron; {
	case c.m.Job(j.ID) != nil:
		c.end(j, f)
	case cron != "" && c.doc.Cron(cron) != nil:
	case repeated, j.Status == fsm.Dead:
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

// endAs returns the mutation that gives a job the end of j, which is completed,
// cancelled, or expired and then cancelled there.
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
		if n.Options != nil {
			n.Options.After, n.Options.Batch = nil, ""
		}
		return n
	})...)
	c.batch = nil
}

// newJob returns the mutation to enqueue a job like j. It waits only for those jobs of j
// that are in m or in a batch.
func (c *carried) newJob(j *fsm.Job) *fsmpb.NewJob {
	n := j.NewJob()
	if n.Options != nil {
		n.Options.After = slices.DeleteFunc(slices.Clone(j.Details().Waits), func(id string) bool {
			_, coming := c.ids[id]
			return !coming && c.m.Job(id) == nil
		})
	}
	n.Artefacts = c.reserve(j)
	return n
}

// reservedFor is the time for which artefacts are reserved in the adopted state, in ms: the next entry attaches them.
const reservedFor = 24 * 3_600_000

// reserve reserves the artefacts of a job in m. Their objects are in the same bucket.
func (c *carried) reserve(j *fsm.Job) (named []*fsmpb.NamedArtefact) {
	for _, a := range c.own.ArtefactsOf(j.ID) {
		op := &fsmpb.ReserveArtefact{Id: a.Id, Size: a.Size, Sum: a.Sum, Sealed: a.Sealed, UntilMs: c.m.Now() + reservedFor}
		if a.Account != "" {
			op.Quota = &fsmpb.Quota{Account: a.Account}
		}
		c.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_ReserveArtefact{ReserveArtefact: op}}) // the document may have reserved it
		named = append(named, &fsmpb.NamedArtefact{Name: a.Name, Id: a.Id})
	}
	return named
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
	return c.m.Apply(at.LSN().Index+1, at.LSN().Term-at.TermBase, &fsmpb.Batch{NowMs: at.NowMs, Mutations: ms})
}

// keptFile is the number of jobs in one object of a copy.
const keptFile = 1000

// keep stores under conflicts/ what is not carried over: jobs with payloads and results, and
// records. It returns the key of the first object. The keys are derived from the content, so a
// repeated adoption stores nothing twice.
func (l *Leader) keep(ctx context.Context, c *carried) (first string, err error) {
	at := l.lsn()
	for part := range slices.Chunk(c.kept, keptFile) {
		data := document.EncodeJobs(part, fmt.Sprintf("cluster %s acknowledged these jobs up to %s; the adopted document does not have them, and they "+
			"could not be carried over", l.do.ClusterID(), at))
		key, err := l.keepObject(ctx, at, "jobs", data)
		if err != nil {
			return "", err
		}
		first = cmp.Or(first, key)
	}
	if c.records.Len() == 0 {
		return first, nil
	}
	data := document.EncodeRecords(&c.records, fmt.Sprintf("cluster %s had these records at %s, and had deleted those in the list deleted; "+
		"the records of the adopted document replaced them", l.do.ClusterID(), at))
	key, err := l.keepObject(ctx, at, "records", data)
	return cmp.Or(first, key), err
}

func (l *Leader) keepObject(ctx context.Context, at fsm.LSN, kind string, data []byte) (key string, err error) {
	key = fmt.Sprintf("conflicts/%s-%s-%.8x.json", at, kind, sha256.Sum256(data))
	if w := l.cfg.Bucket.PutIfAbsent(ctx, key, data); w.Outcome == storage.Unknown {
		return "", fmt.Errorf("write %s to %s: %s: %w", kind, key, w.Outcome, w.Err)
	}
	return key, nil
}

func (c *carried) sum(copied string) Carried {
	return Carried{Jobs: c.jobs, Ended: c.ended, Kept: len(c.kept), Records: c.records.Len(), Copy: copied}
}

// plus adds the counts of an earlier adoption.
func (c Carried) plus(before *Carried) Carried {
	c.Jobs += before.Jobs
	c.Ended += before.Ended
	c.Kept += before.Kept
	c.Records += before.Records
	c.Copy = cmp.Or(c.Copy, before.Copy)
	return c
}

// noteCarried adds the result of an adoption to Carried, and logs it.
func (l *Leader) noteCarried(c *carried, copied string) {
	sum := c.sum(copied)
	if sum == (Carried{}) {
		return
	}
	log := l.log.Warn
	if sum.Kept+sum.Records > 0 {
		log = l.log.Error
	}
	r := &c.records
	log("the adopted document lacked changes that this cluster had acknowledged",
		"carried_over", sum.Jobs, "ended_as_here", sum.Ended, "only_in_the_copy", sum.Kept,
		"settings", len(r.Settings), "limits", len(r.Limits), "schedules", len(r.Schedules), "tokens", len(r.Tokens), "hooks", len(r.Hooks),
		"request_keys", len(r.Requests), "deleted", len(r.Deleted), "copy", copied)
	if before := l.carried.Load(); before != nil {
		sum = sum.plus(before)
	}
	l.carried.Store(&sum)
}

// Records other than jobs are not merged: the adopted state keeps those of the document. A copy
// under conflicts/ gets the records of this cluster that the document lacks or defines differently,
// and the names of records that this cluster deleted or revoked after the fork.

// rest collects the records of v that the adopted state does not have.
func (c *carried) rest(v *fsm.View, f fork) {
	r := &c.records
	for here := range v.Queues {
		if there := c.doc.Queue(here.Name); there == nil || !here.SameAs(there) {
			r.Settings = append(r.Settings, here)
		}
	}
	for here := range v.Limits {
		if here.Rule != nil && !proto.Equal(here.Rule, c.doc.Limit(here.Name).GetRule()) {
			r.Limits = append(r.Limits, here)
		}
	}
	for here := range v.Crons("") {
		if there := c.doc.Cron(here.Name); there == nil || !here.SameAs(there) {
			r.Schedules = append(r.Schedules, here)
		}
	}
	for here := range v.Tokens("") {
		if there := c.doc.Token(here.Id); there == nil || here.ExpiresMs != there.ExpiresMs {
			r.Tokens = append(r.Tokens, here)
		}
	}
	for here := range v.Hooks {
		if there := c.doc.Hook(here.Name); there == nil || here.UpdatedMs != there.UpdatedMs {
			r.Hooks = append(r.Hooks, here)
		}
	}
	for here := range v.Requests {
		if f.since(here) && answers.RemovedJob(here) == nil && c.m.Request(here.Key) == nil {
			r.Requests = append(r.Requests, here)
		}
	}
	c.deleted(v, f, r)
}

// deleted collects the names of the document's records that this cluster has deleted: they are
// older than the fork, and v lacks them.
func (c *carried) deleted(v *fsm.View, f fork, r *document.Records) {
	for there := range c.doc.Crons("") {
		if v.Cron(there.Name) == nil && max(there.CreatedAtMs, there.UpdatedAtMs) <= f.now {
			r.Deleted = append(r.Deleted, "schedule "+there.Name)
		}
	}
	for there := range c.doc.Tokens("") {
		if v.Token(there.Id) == nil && there.CreatedMs <= f.now {
			r.Deleted = append(r.Deleted, "token "+there.Id)
		}
	}
	for there := range c.doc.Hooks {
		if v.Hook(there.Name) == nil && max(there.CreatedMs, there.UpdatedMs) <= f.now {
			r.Deleted = append(r.Deleted, "hook "+there.Name)
		}
	}
}

// since reports whether a record of this cluster is younger than the fork.
func (f fork) since(r *fsm.RequestRecord) bool {
	return fsm.LSN{Term: r.Term, Index: r.Index}.Compare(f.lsn) > 0
}

// findRepeated records the jobs of requests that both clusters have answered. The client has the
// later answer, so the document's counts, and one request must not run twice.
func (c *carried) findRepeated(v *fsm.View, f fork) {
	for r := range v.Requests {
		if f.since(r) && answers.RemovedJob(r) == nil && c.m.Request(r.Key) != nil {
			for _, i := range r.Items {
				c.repeated[i.JobId] = struct{}{}
			}
		}
	}
}

// endRemoved ends the jobs of the document that ended here and that retention has removed here.
// Their results are gone.
func (c *carried) endRemoved(v *fsm.View, f fork) {
	for r := range v.Requests {
		if j := answers.RemovedJob(r); j != nil && f.since(r) {
			c.end(j, f)
		}
	}
}
