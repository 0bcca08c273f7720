package api

import (
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	v1 "osqueue/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

func (s *Server) enqueueRoutes() []route {
	return []route{
		{method: http.MethodPost, path: v1.PathJobs, at: leaderOnly, handle: s.enqueue},
		{method: http.MethodPost, path: v1.PathJobsBatch, at: leaderOnly, handle: s.enqueueBatch},
	}
}

// enqueue is POST /v1/jobs.
func (s *Server) enqueue(c *call) error {
	var in v1.NewJob
	if err := c.decode(&in); err != nil {
		return err
	}
	job, err := s.newJob(&in)
	if err != nil {
		return err
	}
	res, err := s.propose(c, enqueueOf([]*fsmpb.NewJob{job}))
	if err != nil {
		return err
	}
	if err := res.Code.Err(); err != nil {
		return err
	}
	c.out = append(c.out[:0], '{')
	c.out = text(c.out, "jobId", job.Id)
	c.out = lsnText(c.out, c.lsn)
	if len(res.Codes) > 0 && res.Codes[0] == fsm.Duplicate {
		c.out = append(key(c.out, "duplicate"), "true"...)
	}
	c.out = append(c.out, '}')
	return c.send()
}

// enqueueBatch is POST /v1/jobs/batch.
func (s *Server) enqueueBatch(c *call) error {
	var in v1.Batch
	if err := c.decode(&in); err != nil {
		return err
	}
	if err := s.cfg.Limits.checkCount(len(in.Jobs)); err != nil {
		return err
	}
	jobs := make([]*fsmpb.NewJob, len(in.Jobs))
	for i := range in.Jobs {
		job, err := s.newJob(&in.Jobs[i])
		if err != nil {
			return blame(err, i)
		}
		jobs[i] = job
	}
	res, err := s.propose(c, enqueueOf(jobs))
	if err != nil {
		return err
	}
	if !res.Code.Done() {
		return refusedBatch(res)
	}
	c.out = appendBatch(c.out[:0], jobs, res.Codes, c.lsn)
	return c.send()
}

// refusedBatch says which job of a batch was refused, and why.
func refusedBatch(res fsm.Result) error {
	for i, code := range res.Codes {
		if !code.Done() {
			return blame(code.Err(), i)
		}
	}
	return res.Code.Err()
}

// appendBatch appends a v1.BatchEnqueued.
func appendBatch(b []byte, jobs []*fsmpb.NewJob, codes []fsm.Code, lsn fsm.LSN) []byte {
	b = append(b, `{"jobIds":[`...)
	for i, j := range jobs {
		b = item(b, i, j.Id)
	}
	b = append(b, ']')
	b = lsnText(b, lsn)
	n := 0
	for i, j := range jobs {
		if i >= len(codes) || codes[i] != fsm.Duplicate {
			continue
		}
		if n == 0 {
			b = append(key(b, "duplicates"), '[')
		}
		b = item(b, n, j.Id)
		n++
	}
	if n > 0 {
		b = append(b, ']')
	}
	return append(b, '}')
}

func enqueueOf(jobs []*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

// newJob checks a job and completes it with what the log cannot imply.
func (s *Server) newJob(in *v1.NewJob) (*fsmpb.NewJob, error) {
	if err := s.checkNewJob(in); err != nil {
		return nil, err
	}
	job := &fsmpb.NewJob{
		Id:          in.ID,
		Type:        in.Type,
		Payload:     in.Payload,
		Priority:    in.Priority,
		RunAtMs:     in.RunAt,
		MaxAttempts: in.MaxAttempts,
		LeaseMs:     in.LeaseMs,
	}
	if in.DelayMs > 0 {
		job.RunAtMs = s.b.Now() + in.DelayMs
	}
	if job.Id == "" {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, err
		}
		job.Id = id.String()
	}
	return job, nil
}

func (s *Server) checkNewJob(in *v1.NewJob) error {
	l := &s.cfg.Limits
	if err := l.checkID(in.ID); err != nil {
		return err
	}
	if err := l.checkName("type", in.Type); err != nil {
		return err
	}
	if err := checkMs("leaseMs", in.LeaseMs, l.Lease); err != nil {
		return err
	}
	if in.MaxAttempts != nil && *in.MaxAttempts < 0 {
		return fail(badRequest, "maxAttempts is negative")
	}
	return s.checkTimes(in)
}

// secondsBelow: a time smaller than this, in 1973, was given in seconds.
const secondsBelow = 100_000_000_000

func (s *Server) checkTimes(in *v1.NewJob) error {
	if err := checkMs("delayMs", in.DelayMs, s.cfg.Limits.Delay); err != nil {
		return err
	}
	switch {
	case in.RunAt == 0:
		return nil
	case in.DelayMs != 0:
		return fail(badRequest, "runAt and delayMs exclude each other")
	case in.RunAt < secondsBelow:
		return fail(badRequest, "runAt is %d; milliseconds since 1970 are wanted", in.RunAt)
	case in.RunAt > s.b.Now()+s.cfg.Limits.Delay.Milliseconds():
		return fail(badRequest, "runAt is more than %s ahead", s.cfg.Limits.Delay.Round(time.Hour))
	}
	return nil
}

// propose commits one mutation. The LSN goes to the answer, whatever the
// machine decides.
func (s *Server) propose(c *call, m *fsmpb.Mutation) (fsm.Result, error) {
	ctx, cancel := context.WithTimeout(c.context(), s.cfg.Timeouts.Commit)
	defer cancel()
	res, lsn, err := s.b.Propose(ctx, m)
	if err != nil {
		return fsm.Result{}, err
	}
	c.lsn = lsn
	return res, nil
}
