package jobs

import (
	"slices"
	"strconv"
	"strings"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// enqueue is POST /v1/jobs.
func (s *jobs) enqueue(c *core.Call) error {
	in := &c.NewJob
	if err := c.Decode(in); err != nil {
		return err
	}
	op := newEnqueueOne()
	job := &op.job
	if err := s.Reader.FillJob(in, job); err != nil {
		return err
	}
	if err := s.CheckUploaded(c, op.jobs[:]); err != nil {
		return err
	}
	res, err := s.ProposeOnly(c, op.list[:])
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return s.nameMissing(c, err, job, nil)
	}
	op.out = v1.Enqueued{
		JobID: core.EnqueuedID(res, 0, job), LSN: c.LsnText(), Duplicate: isDuplicate(res, 0),
		Replaced: len(res.Codes) == 1 && res.Codes[0] == fsm.Replaced,
	}
	return c.Answer(&op.out)
}

// enqueueBatch is POST /v1/jobs/batch.
func (s *jobs) enqueueBatch(c *core.Call) error {
	in := &c.Batch
	if err := c.Decode(in); err != nil {
		return err
	}
	if err := s.Config.Limits.CheckCount(len(in.Jobs)); err != nil {
		return err
	}
	jobs, err := s.Reader.NewJobs(c, in.Jobs)
	if err != nil {
		return err
	}
	if err := s.CheckUploaded(c, jobs); err != nil {
		return err
	}
	res, err := s.Propose(c, core.EnqueueOf(jobs))
	if err != nil {
		return err
	}
	if !res.Code.Done() {
		return s.refusedBatch(c, res, jobs)
	}
	ids, duplicates := idsOf(jobs, res)
	return c.Answer(&v1.BatchEnqueued{JobIDs: ids, LSN: c.LsnText(), Duplicates: duplicates})
}

// refusedBatch names the job of a batch that was refused, and the reason.
func (s *jobs) refusedBatch(c *core.Call, res fsm.Result, jobs []*fsmpb.NewJob) error {
	for i, code := range res.Codes {
		if !code.Done() && i < len(jobs) {
			return core.Blame(s.nameMissing(c, code.Err(), jobs[i], jobs), i)
		}
	}
	return res.Code.Err()
}

// nameMissing adds to a refusal the dependencies of the job that do not exist for the caller. Jobs
// of its batch do exist.
func (s *jobs) nameMissing(c *core.Call, err error, job *fsmpb.NewJob, batch []*fsmpb.NewJob) error {
	f := *core.FailureOf(err)
	if f.Tag != v1.TagNoSuchJob {
		return err
	}
	var missing []string
	for _, id := range job.GetOptions().GetAfter() {
		inBatch := slices.ContainsFunc(batch, func(j *fsmpb.NewJob) bool { return j.GetId() == id })
		if j := s.Node.Job(id); !inBatch && (j == nil || s.CheckJob(c, j) != nil) && len(missing) < core.UnknownMax {
			missing = append(missing, strconv.Quote(core.Shown(id)))
		}
	}
	if len(missing) == 0 {
		return err // it has come to be since
	}
	f.Detail += ": " + strings.Join(missing, ", ")
	return &f
}

func isDuplicate(res fsm.Result, i int) bool {
	return i < len(res.Codes) && (res.Codes[i] == fsm.Duplicate || res.Codes[i] == fsm.Replaced)
}

// idsOf returns the ids of a batch, and those of the jobs that were there before.
func idsOf(jobs []*fsmpb.NewJob, res fsm.Result) (ids, duplicates []string) {
	ids = make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = core.EnqueuedID(res, i, j)
		if isDuplicate(res, i) {
			duplicates = append(duplicates, ids[i])
		}
	}
	return ids, duplicates
}

// enqueueOne is the mutation that enqueues one job, with all its parts and the answer in one allocation.
type enqueueOne struct {
	mutation fsmpb.Mutation
	op       fsmpb.Mutation_Enqueue
	enqueue  fsmpb.Enqueue
	job      fsmpb.NewJob
	jobs     [1]*fsmpb.NewJob
	list     [1]*fsmpb.Mutation
	out      v1.Enqueued
}

func newEnqueueOne() *enqueueOne {
	e := new(enqueueOne)
	e.jobs[0], e.list[0] = &e.job, &e.mutation
	e.enqueue.Jobs = e.jobs[:]
	e.op.Enqueue, e.mutation.Op = &e.enqueue, &e.op
	return e
}
