package work

import (
	"cmp"
	"errors"
	"net/http"
	"strconv"
	"time"

	"osqueue/api/core"
	"osqueue/api/livelog"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// Bounds of what a worker sends; the document has them too.
const (
	LogTextMax  = 24 << 10 // bytes of the text of a chunk, which may be encrypted
	LogBytesMax = 16 << 10 // plain bytes of a chunk
	// logTick is the interval at which a request that waits for a log looks at the state of
	// its job, and whether this node still leads.
	logTick = 500 * time.Millisecond
)

// logsQuery is a request for what follows a position.
type logsQuery struct {
	at   livelog.Position
	wait time.Duration
}

func (s *work) readLogsQuery(c *core.Call) (q logsQuery, err error) {
	if text := c.Params.Get(v1.ParamToken); text != "" {
		if q.at.Token, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, core.Fail(core.BadRequest, "%s is %q; must be the token of an earlier answer", v1.ParamToken, core.Shown(text))
		}
	}
	if text := c.Params.Get(v1.ParamOffset); text != "" {
		if q.at.Offset, err = strconv.ParseInt(text, 10, 64); err != nil || q.at.Offset < 0 {
			return q, core.Fail(core.BadRequest, "%s is %q; must be the offset of an earlier answer", v1.ParamOffset, core.Shown(text))
		}
	}
	if text := c.Params.Get(v1.ParamWaitMs); text != "" {
		q.wait, err = s.WaitParam(v1.ParamWaitMs, text)
	}
	return q, err
}

var tooManyLogs = core.Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "Too many jobs are followed", Retry: 5 * time.Second}

var followsTooMany = core.Kind{Status: http.StatusTooManyRequests, Tag: v1.TagRateLimited, Title: "The client follows too many jobs", Retry: 5 * time.Second}

// followLogs is GET /v1/jobs/{id}/logs. It marks the job as watched, and answers when its
// attempts have written something after the position, when the job has ended, or when the time
// is over.
func (s *work) followLogs(c *core.Call) error {
	q, err := s.readLogsQuery(c)
	if err != nil {
		return err
	}
	c.HoldOff(q.wait)
	leave, err := c.Enter(s.Shares.Waits, tooManyLogs, Waiting)
	if err != nil {
		return err
	}
	defer leave()
	until := time.Now().Add(q.wait)
	first := s.Node.Job(c.Name)
	if err := s.CheckJob(c, first); err != nil {
		return err
	}
	for {
		j := s.Node.Job(c.Name)
		if j == nil || first == nil || j.Seq != first.Seq || jobOf(j) != jobOf(first) { // one of another scope may have got the id
			return fsm.NotFound.Err()
		}
		over := core.Ended(j)
		if !over {
			if err := s.watch(c, j); err != nil {
				return err
			}
		}
		chunks, next, more := s.Logs.Read(jobOf(j), q.at)
		if len(chunks) > 0 || over || !time.Now().Before(until) {
			return c.SendJSON(jobLogsOf(j, chunks, next))
		}
		if err := s.awaitLog(c, more, until); err != nil {
			return err
		}
	}
}

// watch marks a job as followed by the client of c.
func (s *work) watch(c *core.Call, j *fsm.Job) error {
	switch err := s.Logs.Watch(claimOf(j), c.Client()); {
	case errors.Is(err, livelog.ErrReader):
		return core.Fail(followsTooMany, "client %s follows the logs of %d running jobs, the limit for one client; stop following one of "+
			"them, and retry ten seconds later", core.Shown(c.Client()), s.Logs.ReaderJobs())
	case err != nil:
		return core.Fail(tooManyLogs, "the leader follows the logs of as many jobs as it can; retry after a moment")
	}
	return nil
}

// awaitLog waits for a change, for a moment at most. It returns an error if the request ends,
// or if this node leads no more, so that the caller asks the new leader.
func (s *work) awaitLog(c *core.Call, changed <-chan struct{}, until time.Time) error {
	ctx, cancel := s.Patience(c, min(time.Until(until), logTick))
	defer cancel()
	select {
	case <-changed:
	case <-ctx.Done():
	}
	if err := s.Interrupted(c); err != nil {
		return err
	}
	if leader, self := s.Node.Leader(); !self {
		f := core.Fail(core.NotLeader, "this node is no longer the leader, which has the log; repeat the request")
		f.Leader = leader
		return f
	}
	return nil
}

func jobOf(j *fsm.Job) livelog.Job { return livelog.Job{ID: j.ID, Created: j.CreatedAt} }

// claimOf returns the claim of a running job; without worker and token if it does not run.
func claimOf(j *fsm.Job) livelog.Claim {
	c := livelog.Claim{Job: jobOf(j)}
	if j.Status == fsm.InProgress {
		c.Worker, c.Token = j.Execution().Worker, j.Execution().Token
	}
	return c
}

func jobLogsOf(j *fsm.Job, chunks []livelog.Chunk, next livelog.Position) v1.JobLogs {
	out := v1.JobLogs{Status: j.Status.String(), Token: next.Token, Offset: next.Offset}
	for _, c := range chunks {
		out.Chunks = append(out.Chunks, v1.LogChunk(c))
	}
	return out
}

// sendLogs is POST /v1/jobs/logs.
func (s *work) sendLogs(c *core.Call, in *v1.SendLogs) error {
	if err := s.checkLogs(in); err != nil {
		return err
	}
	in.WorkerID = c.Owned(in.WorkerID)
	for i := range in.Jobs {
		s.addLog(c, in.WorkerID, &in.Jobs[i])
	}
	wanted := s.wantedLogs(c, in.WorkerID)
	if len(wanted) == 0 && len(in.Jobs) == 0 && in.WaitMs > 0 {
		var err error
		if wanted, err = s.awaitWatched(c, in.WorkerID, s.BoundedWait(in.WaitMs)); err != nil {
			return err
		}
	}
	return c.SendJSON(v1.LogsWanted{Jobs: wanted})
}

func (s *work) checkLogs(in *v1.SendLogs) error {
	l := &s.Config.Limits
	if in.WorkerID == "" {
		return core.Bad("workerId", "is missing")
	}
	if err := l.CheckName("workerId", in.WorkerID); err != nil {
		return err
	}
	if in.WaitMs < 0 {
		return core.Bad("waitMs", "is %d; must not be negative", in.WaitMs)
	}
	if err := l.CheckMost("jobs", len(in.Jobs)); err != nil {
		return err
	}
	for i := range in.Jobs {
		if err := checkSentLog(&in.Jobs[i]); err != nil {
			return core.Blame(err, i)
		}
	}
	return nil
}

// checkSentLog checks a chunk and sets its length.
func checkSentLog(in *v1.SentLog) error {
	if err := core.CheckJobID("jobId", in.JobID); err != nil {
		return err
	}
	in.Bytes = cmp.Or(in.Bytes, int64(len(in.Text)))
	switch {
	case len(in.Text) > LogTextMax:
		return core.Bad("text", "has %d bytes; at most %d are allowed: send several chunks", len(in.Text), LogTextMax)
	case in.Bytes < 0 || in.Bytes > LogBytesMax:
		return core.Bad("bytes", "is %d; must be from 0 to %d", in.Bytes, LogBytesMax)
	case in.Offset < 0 || in.Offset > 1<<60:
		return core.Bad("offset", "is %d; must be from 0 to %d", in.Offset, int64(1<<60))
	}
	return nil
}

// addLog adds a chunk if the caller holds the job.
func (s *work) addLog(c *core.Call, worker string, in *v1.SentLog) {
	j := s.Node.Job(in.JobID)
	if !s.holdsLog(c, j, worker, in.Token) {
		return
	}
	s.Logs.Add(jobOf(j), livelog.Chunk{
		Token: in.Token, Attempt: j.Attempts, Offset: in.Offset, Bytes: in.Bytes, Text: in.Text,
	})
}

// holdsLog reports whether a worker of the caller runs this attempt of a job. The rules are those
// of reports.
func (s *work) holdsLog(c *core.Call, j *fsm.Job, worker string, token uint64) bool {
	if j == nil || j.Status != fsm.InProgress || j.Execution().Worker != worker || j.Execution().Token != token || token == 0 {
		return false
	}
	p := c.Principal
	if p == nil || s.Access.Off() {
		return true
	}
	if p.Scoped() && s.Denied(c, p.CheckJob(j)) != nil {
		return false
	}
	owner := j.Details().Owner
	return owner == 0 || p.Owner == 0 || owner == p.Owner
}

// wantedLogs returns the watched jobs that a worker of the caller runs.
func (s *work) wantedLogs(c *core.Call, worker string) []v1.LogWanted {
	out := []v1.LogWanted{}
	for _, w := range s.Logs.Watched(worker, s.Config.Limits.BatchJobs) {
		if s.holdsLog(c, s.Node.Job(w.ID), worker, w.Token) {
			out = append(out, v1.LogWanted{JobID: w.ID, Token: w.Token, Offset: w.Offset})
		}
	}
	return out
}

// awaitWatched waits until a job of the worker is watched.
func (s *work) awaitWatched(c *core.Call, worker string, wait time.Duration) ([]v1.LogWanted, error) {
	c.HoldOff(wait)
	leave, err := c.Enter(s.Shares.Waits, tooManyLogs, Waiting)
	if err != nil {
		return nil, err
	}
	defer leave()
	until := time.Now().Add(wait)
	for {
		changed, done := s.Logs.Changed(worker)
		wanted := s.wantedLogs(c, worker)
		if len(wanted) > 0 || !time.Now().Before(until) {
			done()
			return wanted, nil
		}
		err := s.awaitLog(c, changed, until)
		done()
		if err != nil {
			return nil, err
		}
	}
}
