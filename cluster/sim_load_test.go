package cluster

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"time"

	"osqueue/cluster/leader"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

// simUsers are producers and workers. They can reach every node, even one that is cut off
// from the others, and repeat their requests until they get an answer.
type simUsers struct {
	world    *simWorld
	clusters func() []*simCluster
	produce  chan struct{} // closed when producers must end
	work     chan struct{} // closed when workers must end

	producers sync.WaitGroup
	wg        sync.WaitGroup // reader and workers
}

const (
	simProducers = 3
	simWorkers   = 4
)

func newSimUsers(w *simWorld, clusters func() []*simCluster) *simUsers {
	u := &simUsers{world: w, clusters: clusters, produce: make(chan struct{}), work: make(chan struct{})}
	for i := range simProducers {
		c := &simClient{simUsers: u, name: fmt.Sprintf("p%d", i+1), r: w.rand(), over: u.produce}
		u.producers.Go(c.produceJobs)
	}
	limiter := &simClient{simUsers: u, name: "l", r: w.rand(), over: u.produce}
	u.producers.Go(limiter.setLimits)
	reader := &simClient{simUsers: u, name: "r", r: w.rand(), over: u.work}
	u.wg.Go(reader.readJobs)
	for i := range simWorkers {
		c := &simClient{simUsers: u, name: fmt.Sprintf("w%d", i+1), r: w.rand(), over: u.work}
		u.wg.Go(c.workOnJobs)
	}
	return u
}

// simClient is one producer or worker.
type simClient struct {
	*simUsers
	name string
	r    *rand.Rand
	over <-chan struct{}
	n    int      // number of names given so far
	sent []string // ids of its jobs
}

func (c *simClient) rest(d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-c.over:
		return false
	case <-t.C:
		return true
	}
}

func (c *simClient) ms(n int) time.Duration { return time.Duration(1+c.r.IntN(n)) * time.Millisecond }

// node returns a node that claims to answer writes, or nil.
func (c *simClient) node() *simLife {
	var all []*simLife
	for _, cl := range c.clusters() {
		all = append(all, cl.lives()...)
	}
	c.r.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	for _, l := range all {
		if _, self := l.Leader(); self {
			return l
		}
	}
	return nil
}

// simAnswer is an answer that a client has received.
type simAnswer struct {
	fsm.Result
	lsn  fsm.LSN
	from *simLife
}

// do proposes a mutation. It repeats the same mutation until there is an answer, or until
// the client has to end.
func (c *simClient) do(what func() *fsmpb.Mutation) (a simAnswer, ok bool) {
	return c.doBy(what, func(ctx context.Context, l *simLife, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
		return l.Propose(ctx, m)
	})
}

// await is do for a claim that waits for a job, for a moment. The answer has no LSN if
// nothing was committed.
func (c *simClient) await(what func() *fsmpb.Mutation) (a simAnswer, ok bool) {
	return c.doBy(what, func(ctx context.Context, l *simLife, m *fsmpb.Mutation) (fsm.Result, fsm.LSN, error) {
		moment, cancel := context.WithTimeout(ctx, c.ms(400))
		defer cancel()
		got, err := l.AwaitClaim(ctx, moment.Done(), m)
		if err == nil && got.Woken {
			return l.Propose(ctx, what())
		}
		if err == nil && !got.LSN.IsZero() {
			c.world.counts.One("claim handed over")
		}
		return got.Result, got.LSN, err
	})
}

// doBy is do with the call that proposes the mutation.
func (c *simClient) doBy(
	what func() *fsmpb.Mutation, propose func(context.Context, *simLife, *fsmpb.Mutation) (fsm.Result, fsm.LSN, error),
) (a simAnswer, ok bool) {
	for {
		if l := c.node(); l != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 500*time.Millisecond+c.ms(4000))
			m := what()
			res, lsn, err := propose(ctx, l, m)
			cancel()
			var rival *leader.RivalError
			if errors.Is(err, ErrFlushLag) && leader.IsReport(m) && (!errors.As(err, &rival) || leader.IsHeartbeat(m)) {
				c.world.failf("%s got %v for a report", c.name, err)
			}
			if err == nil {
				if !lsn.IsZero() {
					c.world.answered(l.place.cluster.name, lsn)
				}
				return simAnswer{res, lsn, l}, true
			}
			c.excuse(err)
		}
		if !c.rest(20*time.Millisecond + c.ms(400)) {
			return a, false
		}
	}
}

// excuse counts the reasons for which there was no answer.
func (c *simClient) excuse(err error) {
	switch {
	case errors.Is(err, ErrUnknown):
		c.world.counts.One("answer: unknown")
	case errors.Is(err, ErrNotLeader):
		c.world.counts.One("answer: not the leader")
	case errors.Is(err, ErrFlushLag):
		c.world.counts.One("answer: the bucket lags")
	case errors.Is(err, context.DeadlineExceeded):
		c.world.counts.One("answer: none in time")
	default:
		c.world.failf("%s got %v", c.name, err)
	}
}

func (c *simClient) id(kind string) string {
	c.n++
	return fmt.Sprintf("%s-%s%d", c.name, kind, c.n)
}

// simTick is the type of the jobs that the schedule creates.
const simTick = "tick"

const simSpec = "*/30 * * * * *"

// putSchedule creates a schedule that fires twice a minute, also for all times that were missed: after hours without a leader
// the workers have hundreds of jobs to do.
func (c *simClient) putSchedule() {
	c.do(func() *fsmpb.Mutation {
		next := nextTime(simSpec, time.Now().UnixMilli())
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: c.name, Spec: simSpec, TimeZone: "UTC", NextMs: next, Job: &fsmpb.NewJob{Type: simTick},
			Missed: uint32(fsm.MissedAll), JitterMs: 3000,
		}}}
	})
}

// dropSchedule deletes the schedule.
func (u *simUsers) dropSchedule() {
	c := &simClient{simUsers: u, name: "admin", r: u.world.rand(), over: u.work}
	drop := &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: simScheduler}}}
	c.do(func() *fsmpb.Mutation { return drop })
}

// simScheduler is the producer that also has a schedule.
const simScheduler = "p1"

func (c *simClient) produceJobs() {
	if c.name == simScheduler {
		c.putSchedule()
	}
	for c.rest(c.ms(2500)) {
		switch c.r.IntN(12) {
		case 0:
			c.cancelOne()
			continue
		case 1, 2:
			c.editOne()
			continue
		case 3:
			c.signalOne()
			continue
		}
		c.enqueue()
	}
}

func (c *simClient) enqueue() {
	var jobs []*fsmpb.NewJob
	for range 1 + c.r.IntN(3)/2 {
		j := &fsmpb.NewJob{Id: c.id("j"), Type: "t", Payload: fmt.Appendf(nil, `{"n":%d}`, c.n), Priority: int32(c.r.IntN(3))}
		if c.r.IntN(8) == 0 {
			j.Payload = fmt.Appendf(nil, `"%0*d"`, c.r.IntN(4000), 7)
		}
		switch c.r.IntN(6) {
		case 0:
			j.Optional().Sequence = fmt.Sprint("s", c.r.IntN(3))
		case 1, 2:
			j.Optional().Limits = c.limits()
		}
		c.world.ask(j.Id)
		jobs = append(jobs, j)
		c.sent = append(c.sent, j.Id)
	}
	c.submit(jobs, c.safe)
}

// submit enqueues jobs of which the world knows. safe reports whether the bucket has the answer.
func (c *simClient) submit(jobs []*fsmpb.NewJob, safe func(simAnswer) bool) {
	a, ok := c.do(func() *fsmpb.Mutation {
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
	})
	if !ok {
		return
	}
	if !a.Code.Done() {
		c.world.failf("%s may not enqueue: %s", c.name, a.Code)
		return
	}
	for _, j := range jobs {
		c.world.acknowledged(j.Id, a.lsn, safe(a))
	}
}

// safe sometimes waits until an answer is in the bucket, and reports whether it is.
func (c *simClient) safe(a simAnswer) bool {
	if c.r.IntN(3) > 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	ok := a.from.WaitFlushed(ctx, a.lsn) == nil
	if ok {
		c.world.counts.One("acknowledged as in the bucket")
	}
	return ok
}

func (c *simClient) cancelOne() {
	if len(c.sent) == 0 {
		return
	}
	id := c.sent[c.r.IntN(len(c.sent))]
	a, ok := c.do(func() *fsmpb.Mutation { return script.ChangeOf(fsm.CancelJobs, id) })
	if ok && a.Code.Done() {
		c.world.counts.One("cancel answered")
	}
}

// workOnJobs claims jobs and works on them, in order or not.
func (c *simClient) workOnJobs() {
	for c.rest(c.ms(300)) {
		start, request := time.Now(), c.id("r")
		claim := c.do
		if c.n%2 == 0 {
			claim = c.await
		}
		a, ok := claim(func() *fsmpb.Mutation { return script.ClaimAs(c.name, request, 2) })
		if !ok {
			return
		}
		for _, j := range a.Jobs {
			c.world.leased(j, a.lsn, start)
		}
		for _, j := range a.Jobs {
			c.workOn(j)
		}
	}
}

func (c *simClient) workOn(j *fsm.Job) {
	c.rest(c.ms(800))
	token := j.Execution().Token
	if c.r.IntN(4) == 0 {
		c.throttle(j)
	}
	if c.r.IntN(6) == 0 {
		c.keep(j)
	}
	switch n := c.r.IntN(20); {
	case n == 0:
		return // the worker does not report on it again
	case n == 1:
		c.rest(simLease * 3 / 2) // its lease expires before that
	case n < 5:
		c.hold(j)
	case n == 5:
		c.do(func() *fsmpb.Mutation { return script.Fail(c.name, j.ID, token, "boom", false) })
		return
	case n == 7:
		c.snooze(j)
		return
	case n == 8:
		c.suspend(j)
		return
	case n == 6:
		c.do(func() *fsmpb.Mutation { return script.Release(c.name, j.ID, token) })
		return
	}
	c.complete(j)
}

// hold works for longer than a lease lasts, and extends the lease.
func (c *simClient) hold(j *fsm.Job) {
	for range 5 {
		if !c.rest(simLease / 3) {
			return
		}
		start := time.Now()
		a, ok := c.do(func() *fsmpb.Mutation { return script.Heartbeat(c.name, j.ID, j.Execution().Token) })
		if !ok || len(a.Codes) != 1 || !a.Codes[0].Done() {
			return
		}
		c.world.counts.One("heartbeat answered")
		c.world.leased(j, a.lsn, start)
	}
}

func (c *simClient) complete(j *fsm.Job) {
	a, ok := c.do(func() *fsmpb.Mutation { return script.Complete(c.name, j.ID, j.Execution().Token) })
	switch {
	case !ok:
	case a.Code.Done():
		c.world.completed(j, a, c.safe(a))
	default:
		c.world.counts.One("completion refused: " + a.Code.String())
	}
}

// readJobs reads from a node that claims to lead. A read must not miss a job that was
// acknowledged to any client before the read began.
func (c *simClient) readJobs() {
	for c.rest(c.ms(500)) {
		l := c.node()
		if l == nil {
			continue
		}
		told := c.world.newest(l.place.cluster.name)
		ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
		err := l.Linearize(ctx)
		cancel()
		if err != nil {
			c.world.counts.One("read refused")
			continue
		}
		c.world.counts.One("check: fresh read")
		if got := l.View().LSN(); got.Compare(told) < 0 {
			c.world.failf("%s reads at %s what is at %s", l.place.name, got, told)
		}
	}
}

// answered records the newest LSN that a cluster has answered with.
func (w *simWorld) answered(cluster string, lsn fsm.LSN) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if lsn.Compare(w.told[cluster]) > 0 {
		w.told[cluster] = lsn
	}
}

func (w *simWorld) newest(cluster string) fsm.LSN {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.told[cluster]
}

// acknowledged records that a producer has received the answer that its job exists.
func (w *simWorld) acknowledged(id string, lsn fsm.LSN, safe bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.counts.One("check: acknowledged job is in the log")
	s := w.states[lsn]
	if s == nil {
		w.failLocked("job %s was acknowledged at %s, which no node has applied", id, lsn)
		return
	}
	j := s.ledger.jobs[id]
	if j == nil || j.enqueued.Compare(lsn) > 0 {
		w.failLocked("job %s was acknowledged at %s, and is not there", id, lsn)
		return
	}
	j.acked, j.safe = true, j.safe || safe
}

// leased records that a worker has received an answer with a lease.
func (w *simWorld) leased(job *fsm.Job, lsn fsm.LSN, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[lsn]
	if s == nil {
		w.failLocked("job %s was given at %s, which no node has applied", job.ID, lsn)
		return
	}
	j := s.ledger.jobs[job.ID]
	if w.tokens[job.Execution().Token] != job.ID || j == nil {
		w.failLocked("job %s was given with token %d, which no entry has given", job.ID, job.Execution().Token)
		return
	}
	if j.leased != job.Execution().Token || asked.After(j.renewed) {
		j.leased, j.renewed, j.held = job.Execution().Token, asked, time.Duration(job.Execution().HeldMs)*time.Millisecond
	}
}

// completed records that a worker has received the answer that its job is completed.
func (w *simWorld) completed(job *fsm.Job, a simAnswer, safe bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	s := w.states[a.lsn]
	if s == nil {
		w.failLocked("job %s was acknowledged as completed at %s, which no node has applied", job.ID, a.lsn)
		return
	}
	j := s.ledger.jobs[job.ID]
	if j == nil || j.completed.IsZero() || j.completed.Compare(a.lsn) > 0 {
		w.failLocked("job %s was acknowledged as completed at %s, and it is not", job.ID, a.lsn)
		return
	}
	if j.token != job.Execution().Token {
		w.failLocked("job %s was completed with token %d, and so was it acknowledged with %d", job.ID, j.token, job.Execution().Token)
		return
	}
	w.counts.One("check: acknowledged completion")
	j.done, j.doneLSN, j.kept = true, j.completed, j.kept || safe
}
