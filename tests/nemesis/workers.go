package nemesis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
	"osqueue/tests/history"
)

// workerFaults befall processes of `osqueue worker` while they hold a job.
var workerFaults = []Fault{
	{Name: "worker-killed", Needs: NeedWorkers, Begin: killWorker},
	{Name: "worker-paused", Needs: NeedWorkers, Begin: pauseWorker},
	{Name: "worker-paused-claiming", Needs: NeedWorkers, Begin: pauseClaimingWorker},
	{Name: "worker-replaced", Needs: NeedWorkers, Begin: replaceWorker},
}

// Jobs of worker processes take a while, and longer than their lease if their worker
// is stopped.
const (
	slowType   = "slow"
	slowTime   = 3 * time.Second
	slowLease  = 2 * time.Second
	heldWithin = 20 * time.Second
)

// startWorkers starts n of them.
func (w *World) startWorkers(n int) {
	for i := range n {
		w.Workers = append(w.Workers, w.Cluster.StartWorker(fmt.Sprintf("process-%d", i+1), workerArgs()...))
	}
	if n > 0 {
		w.has |= NeedWorkers
	}
}

func workerArgs() []string {
	return []string{
		"--lease", slowLease.String(), "--concurrency", "2", "--poll-wait", "1s",
		"--exec", fmt.Sprintf("%s=sleep %g", slowType, slowTime.Seconds()),
	}
}

// endWorkers ends all worker processes, when they have nothing left to do.
func (w *World) endWorkers() {
	for _, p := range w.Workers {
		p.Continue()
		p.Kill()
	}
	w.Workers = nil
}

// enqueueSlow adds a job for worker processes, and notes it.
func (w *World) enqueueSlow() (id string) { return w.enqueueFor(10) }

func (w *World) enqueueFor(attempts int32) (id string) {
	id = uuid.NewString()
	key := uuid.NewString()
	op := w.Rec.Begin(history.Op{Client: "nemesis", Kind: history.Enqueue, Job: id, Type: slowType, Request: key, MaxAttempts: int(attempts)})
	ctx := client.WithIdempotencyKey(w.Cluster.Context(heldWithin), key)
	e, err := w.Cluster.Client.Enqueue(ctx, client.NewJob{ID: id, Type: slowType, MaxAttempts: &attempts})
	op.Outcome = history.OK
	if err != nil {
		op.Outcome, op.Error = history.Unknown, err.Error()
	} else if op.LSN, err = history.ParseLSN(e.LSN); err != nil {
		w.T.Fatal(err)
	}
	w.Rec.Op(op)
	return id
}

// holder enqueues jobs until a worker process has taken the newest, and returns both.
// Clients of the workload that take any job may be quicker.
func (w *World) holder() (p *cluster.Worker, job v1.Job, err error) {
	id := w.enqueueSlow()
	err = cluster.Poll(heldWithin, func() error {
		j, err := w.job(id)
		if err != nil {
			return err
		}
		if j.Status == v1.StatusUnclaimed {
			return fmt.Errorf("job %s is %s", id, j.Status)
		}
		for _, q := range w.Workers {
			if j.Status == v1.StatusInProgress && j.WorkerID != nil && q.Name == *j.WorkerID {
				p, job = q, j
				return nil
			}
		}
		err = fmt.Errorf("job %s was taken by a client, and is %s", id, j.Status)
		id = w.enqueueSlow()
		return err
	})
	return p, job, err
}

func (w *World) job(id string) (v1.Job, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return w.Cluster.Client.Job(ctx, id)
}

// again waits until a job has been handed out under a later token, or has ended. While the
// leader refuses writes, because another fault keeps the bucket from it, no job is handed out:
// a wait in which that happened is repeated.
func (w *World) again(s *history.FaultSpan, job v1.Job) {
	var err error
	for range 3 {
		refused := false
		err = cluster.Poll(heldWithin, func() error {
			j, err := w.job(job.ID)
			switch {
			case err != nil:
				return err
			case j.Token == job.Token && j.Status == "completed":
				return nil // it had been quicker
			case j.Token == job.Token:
				refused = refused || w.refusesWrites()
				return errors.New("its lease still stands")
			}
			s.Hit(fmt.Sprintf("job %s went to another claim: token %d, then %d", j.ID, job.Token, j.Token))
			return nil
		})
		if err == nil || !refused {
			break
		}
	}
	if err != nil {
		w.T.Errorf("job %s was not handed out again: %v", job.ID, err)
	}
}

func (w *World) refusesWrites() bool {
	n, err := w.Cluster.Leader()
	if err != nil {
		return false
	}
	st, err := n.Status()
	return err == nil && st.Refusing != ""
}

func killWorker(w *World, s *history.FaultSpan) func() {
	p, job, err := w.holder()
	if err != nil {
		s.Missed(err.Error())
		return func() {}
	}
	dead := w.Rec.Fault(history.WorkerDead, p.Name)
	sign := fmt.Sprintf("process %d ended by SIGKILL while it held job %s", p.Pid(), job.ID)
	p.Kill()
	dead.Hit(sign)
	s.Hit(sign)
	return func() {
		w.again(s, job)
		dead.End()
		p.Start()
	}
}

// pauseWorker stops a worker for longer than its lease. When it wakes it reports with
// a token that has passed.
func pauseWorker(w *World, s *history.FaultSpan) func() {
	p, job, err := w.holder()
	if err != nil {
		s.Missed(err.Error())
		return func() {}
	}
	p.Pause()
	if state, err := processState(p.Pid()); err == nil {
		s.Hit(fmt.Sprintf("process %d in state %s while it held job %s", p.Pid(), state, job.ID))
	}
	w.sleep(slowLease + 500*time.Millisecond)
	return func() {
		w.again(s, job)
		p.Continue()
	}
}

// pauseClaimingWorker stops a worker while its claim waits at the server. It is given the only
// attempt of a job, which must not be lost.
func pauseClaimingWorker(w *World, s *history.FaultSpan) func() {
	p := w.Workers[0]
	var job v1.Job
	err := cluster.Poll(heldWithin, func() (err error) {
		p.Pause()
		if job, err = w.job(w.enqueueFor(1)); err == nil && job.Status == v1.StatusInProgress && job.WorkerID != nil && *job.WorkerID == p.Name {
			return nil
		}
		p.Continue()
		return errors.New("another one was given the job, or none was")
	})
	if err != nil {
		p.Continue()
		s.Missed(err.Error())
		return func() {}
	}
	if state, err := processState(p.Pid()); err == nil {
		s.Hit(fmt.Sprintf("process %d in state %s when it was given the last attempt of job %s", p.Pid(), state, job.ID))
	}
	w.sleep(slowLease + 500*time.Millisecond)
	return func() {
		w.again(s, job)
		p.Continue()
	}
}

// replaceWorker starts a second worker of the same name, and then ends the first one, as a
// deployment does. What the second one holds stays with it.
func replaceWorker(w *World, s *history.FaultSpan) func() {
	p, _, err := w.holder()
	if err != nil {
		s.Missed(err.Error())
		return func() {}
	}
	second := w.Cluster.StartWorker(p.Name+"-next", append(workerArgs(), "--name", p.Name)...)
	p.Terminate()
	w.sleep(500 * time.Millisecond) // from then on it claims nothing more, and its job runs for longer
	job, err := w.heldBy(p.Name)
	for end := time.Now().Add(heldWithin); err == nil && p.Running() && time.Now().Before(end); {
		w.sleep(50 * time.Millisecond)
	}
	if err != nil || p.Running() {
		s.Missed(fmt.Sprintf("the second worker holds no job, or the first one does not end: %v", err))
	} else if now, err := w.job(job.ID); err == nil && now.Token == job.Token {
		s.Hit(fmt.Sprintf("the first worker %s ended while job %s was with the second one, where it stayed", p.Name, job.ID))
	} else if err == nil {
		s.Missed(fmt.Sprintf("job %s went from token %d to %d: %s", job.ID, job.Token, now.Token, now.LastError))
		w.T.Errorf("the end of the first worker took job %s from the second one of its name: %s", job.ID, now.LastError)
	}
	return func() {
		second.Kill()
		p.Start()
	}
}

// heldBy enqueues jobs until a worker of that name holds the newest.
func (w *World) heldBy(name string) (job v1.Job, err error) {
	err = cluster.Poll(heldWithin, func() (err error) {
		if job, err = w.job(w.enqueueSlow()); err == nil && (job.WorkerID == nil || *job.WorkerID != name) {
			err = errors.New("another one was given the job, or none was")
		}
		return err
	})
	return job, err
}
