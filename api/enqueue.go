package api

import (
	"net/http"
	"slices"
	"strconv"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *jobs) enqueueRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathJobs, at: leaderOnly, lenient: true, handle: s.enqueue},
		{method: http.MethodPost, path: v1.PathJobsBatch, at: leaderOnly, handle: s.enqueueBatch},
	}
}

// enqueue is POST /v1/jobs.
func (s *jobs) enqueue(c *call) error {
	in := &c.newJob
	if err := c.decode(in); err != nil {
		return err
	}
	op := newEnqueueOne()
	job := &op.job
	if err := s.reader.fillJob(in, job); err != nil {
		return err
	}
	res, err := s.proposeOnly(c, op.list[:])
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return s.nameMissing(c, err, job, nil)
	}
	c.out = append(c.out[:0], '{')
	c.out = text(c.out, "jobId", enqueuedID(res, 0, job))
	c.out = lsnText(c.out, c.lsn)
	c.out = flagIf(c.out, "duplicate", isDuplicate(res, 0))
	c.out = append(c.out, '}')
	return c.send()
}

// enqueueBatch is POST /v1/jobs/batch.
func (s *jobs) enqueueBatch(c *call) error {
	var in v1.Batch
	if err := c.decode(&in); err != nil {
		return err
	}
	if err := s.cfg.Limits.checkCount(len(in.Jobs)); err != nil {
		return err
	}
	jobs, err := s.reader.newJobs(c, in.Jobs)
	if err != nil {
		return err
	}
	res, err := s.propose(c, enqueueOf(jobs))
	if err != nil {
		return err
	}
	if !res.Code.Done() {
		return s.refusedBatch(c, res, jobs)
	}
	c.out = append(appendEnqueued(append(c.out[:0], '{'), jobs, res, c.lsn), '}')
	return c.send()
}

// refusedBatch names the job of a batch that was refused, and the reason.
func (s *jobs) refusedBatch(c *call, res fsm.Result, jobs []*fsmpb.NewJob) error {
	for i, code := range res.Codes {
		if !code.Done() && i < len(jobs) {
			return blame(s.nameMissing(c, code.Err(), jobs[i], jobs), i)
		}
	}
	return res.Code.Err()
}

// nameMissing adds to a refusal the dependencies of the job that do not exist for the caller. Jobs
// of its batch do exist.
func (s *jobs) nameMissing(c *call, err error, job *fsmpb.NewJob, batch []*fsmpb.NewJob) error {
	f := *failureOf(err)
	if f.tag != v1.TagNoSuchJob {
		return err
	}
	var missing []string
	for _, id := range job.GetAfter() {
		inBatch := slices.ContainsFunc(batch, func(j *fsmpb.NewJob) bool { return j.GetId() == id })
		if j := s.b.Job(id); !inBatch && (j == nil || s.checkJob(c, j) != nil) && len(missing) < unknownMax {
			missing = append(missing, strconv.Quote(shown(id)))
		}
	}
	if len(missing) == 0 {
		return err // it has come to be since
	}
	f.detail += ": " + strings.Join(missing, ", ")
	return &f
}

// enqueuedID returns the id of item i: that of the job, or of the holder of its unique key, or
// the id in the first answer to the same request.
func enqueuedID(res fsm.Result, i int, job *fsmpb.NewJob) string {
	if i < len(res.Jobs) && res.Jobs[i] != nil {
		return res.Jobs[i].ID
	}
	return job.Id
}

func isDuplicate(res fsm.Result, i int) bool {
	return i < len(res.Codes) && res.Codes[i] == fsm.Duplicate
}

// appendEnqueued appends the fields of a v1.BatchEnqueued.
func appendEnqueued(b []byte, jobs []*fsmpb.NewJob, res fsm.Result, lsn fsm.LSN) []byte {
	b = append(key(b, "jobIds"), '[')
	for i, j := range jobs {
		b = item(b, i, enqueuedID(res, i, j))
	}
	b = append(b, ']')
	b = lsnText(b, lsn)
	n := 0
	for i, j := range jobs {
		if !isDuplicate(res, i) {
			continue
		}
		if n == 0 {
			b = append(key(b, "duplicates"), '[')
		}
		b = item(b, n, enqueuedID(res, i, j))
		n++
	}
	if n > 0 {
		b = append(b, ']')
	}
	return b
}

// enqueueOne is the mutation that enqueues one job, with all its parts in one allocation.
type enqueueOne struct {
	mutation fsmpb.Mutation
	op       fsmpb.Mutation_Enqueue
	enqueue  fsmpb.Enqueue
	job      fsmpb.NewJob
	jobs     [1]*fsmpb.NewJob
	list     [1]*fsmpb.Mutation
}

func newEnqueueOne() *enqueueOne {
	e := new(enqueueOne)
	e.jobs[0], e.list[0] = &e.job, &e.mutation
	e.enqueue.Jobs = e.jobs[:]
	e.op.Enqueue, e.mutation.Op = &e.enqueue, &e.op
	return e
}

func enqueueOf(jobs []*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}
