package fsm_test

import (
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// operation does something n times, puts back what it took out, and returns
// how long the first of these took.
type operation struct {
	name string
	run  func(b *testing.B, w *world, n int) time.Duration
}

// The operations. The ones that make views come last, because the machine copies the
// tree nodes that it changes after a view.
var (
	plainOps = []operation{
		{"enqueue", enqueueOp(func(*fsmpb.NewJob) {})},
		{"enqueue-100", enqueueManyOp},
		{"claim+complete", lifecycleOp},
		{"enqueue-unique", enqueueOp(func(n *fsmpb.NewJob) {
			n.Unique = &fsmpb.Unique{Key: n.Id, Scope: uint32(fsm.UniqueActive)}
		})},
		{"claim", claimOp()},
		{"complete", completeOp},
		{"fail-backoff", failOp},
		{"heartbeat", heartbeatOp},
		{"cancel", cancelOp},
		{"list-type", listOp(func(v *fsm.View, after uint64, fn func(*fsm.Job) bool) {
			v.List(fsm.Index{Type: new("bench")}, waitingStatuses, after, fn)
		})},
		{"view", viewOp},
		{"view+enqueue", viewEnqueueOp},
	}
	mixedOps = []operation{
		{"enqueue", enqueueOp(func(*fsmpb.NewJob) {})},
		{"enqueue-unique", enqueueOp(func(n *fsmpb.NewJob) {
			n.Unique = &fsmpb.Unique{Key: n.Id, Scope: uint32(fsm.UniqueActive)}
		})},
		{"claim", claimOp()},
		{"claim-grouped", claimOp("grouped")},
		{"claim-10-types", claimOp(typeOf(11), typeOf(33), typeOf(55), typeOf(77), typeOf(99), typeOf(111), typeOf(333),
			typeOf(555), typeOf(777), "grouped")},
		{"complete", completeOp},
		{"fail-backoff", failOp},
		{"heartbeat", heartbeatLeasesOp},
		{"cancel", cancelOp},
		{"cron-fire", fireOp},
		{"list-type", listOp(func(v *fsm.View, after uint64, fn func(*fsm.Job) bool) {
			v.List(fsm.Index{Type: new("grouped")}, waitingStatuses, after, fn)
		})},
		{"list-tag", listOp(func(v *fsm.View, after uint64, fn func(*fsm.Job) bool) {
			v.List(fsm.Index{Tag: tagOf(0)}, waitingStatuses, after, fn)
		})},
		{"view", viewOp},
		{"view+enqueue", viewEnqueueOp},
	}
	waitingStatuses = []fsm.Status{fsm.Blocked, fsm.Scheduled, fsm.Unclaimed}
)

// allDone fails the benchmark if an operation did not work every time.
func allDone(b *testing.B, jobs []*fsm.Job, n int) {
	b.Helper()
	if len(jobs) != n {
		b.Fatalf("%d of %d were done", len(jobs), n)
	}
}

func enqueueOp(with func(*fsmpb.NewJob)) func(*testing.B, *world, int) time.Duration {
	return func(b *testing.B, w *world, n int) time.Duration {
		jobs, took := w.timed(w.enqueues(n, with)...)
		allDone(b, jobs, n)
		w.unmake(jobs)
		return took
	}
}

// enqueueManyOp enqueues jobs in mutations of 100, and returns the time of one job for each
// of the n operations.
func enqueueManyOp(b *testing.B, w *world, n int) time.Duration {
	const per = 100
	mutations := max(n/per, 1)
	entries := make([]*fsmpb.Batch, mutations)
	for i := range entries {
		op := &fsmpb.Enqueue{}
		for range per {
			op.Jobs = append(op.Jobs, w.newJob(w.made))
			w.made++
		}
		entries[i] = w.entry(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	}
	var jobs []*fsm.Job
	start := time.Now()
	for _, e := range entries {
		w.index++
		jobs = append(jobs, w.m.Apply(w.index, 1, e)[0].Jobs...)
	}
	took := time.Since(start)
	allDone(b, jobs, mutations*per)
	w.unmake(jobs)
	return took * time.Duration(n) / time.Duration(mutations*per)
}

// lifecycleOp claims a job and completes it, in one entry each.
func lifecycleOp(b *testing.B, w *world, n int) time.Duration {
	jobs := make([]*fsm.Job, 0, n)
	start := time.Now()
	for range n {
		claimed, _ := w.timed(w.entry(claim("w", 1)))
		done, _ := w.timed(w.entry(complete("w", claimed[0].ID, claimed[0].Execution().Token)))
		jobs = append(jobs, done...)
	}
	took := time.Since(start)
	allDone(b, jobs, n)
	w.enqueueLike(jobs)
	return took
}

func (w *world) enqueues(n int, with func(*fsmpb.NewJob)) []*fsmpb.Batch {
	entries := make([]*fsmpb.Batch, n)
	for i := range entries {
		job := w.newJob(w.made)
		with(job)
		w.made++
		entries[i] = w.entry(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job}}}})
	}
	return entries
}

func claimOp(types ...string) func(*testing.B, *world, int) time.Duration {
	return func(b *testing.B, w *world, n int) time.Duration {
		entries := make([]*fsmpb.Batch, n)
		for i := range entries {
			entries[i] = w.entry(claim("w", 1, types...))
		}
		jobs, took := w.timed(entries...)
		allDone(b, jobs, n)
		for _, j := range jobs {
			w.do(release("w", j.ID, j.Execution().Token))
		}
		w.replace(jobs)
		return took
	}
}

func completeOp(b *testing.B, w *world, n int) time.Duration {
	jobs, took := w.timed(w.reports(n, complete)...)
	allDone(b, jobs, n)
	w.enqueueLike(jobs)
	return took
}

// failOp lets jobs fail that have a backoff of a day, by their type.
func failOp(b *testing.B, w *world, n int) time.Duration {
	entries := w.reports(n, func(worker, id string, token uint64) *fsmpb.Mutation {
		return fail(worker, id, token, "the other end hung up", false)
	})
	for _, e := range entries {
		w.backOff(w.m.Job(e.Mutations[0].GetFail().Lease.JobId).Type)
	}
	jobs, took := w.timed(entries...)
	allDone(b, jobs, n)
	if jobs[0].Status != fsm.Scheduled {
		b.Fatalf("a failed job is %v", jobs[0].Status)
	}
	w.replace(jobs)
	return took
}

// backOff gives a type a backoff, once.
func (w *world) backOff(jobType string) {
	if w.backsOff == nil {
		w.backsOff = make(map[string]bool)
	}
	if !w.backsOff[jobType] {
		w.backsOff[jobType] = true
		w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: jobType, Backoff: &fsmpb.Backoff{
			Kind: uint32(backoff.Exponential), BaseMs: 1 << 30, JitterPercent: 20,
		}}}})
	}
}

// heartbeatOp renews leases that were claimed for it.
func heartbeatOp(b *testing.B, w *world, n int) time.Duration {
	jobs := w.do(claim("w", uint32(n)))[0].Jobs
	took := w.beat(b, jobs, "w")
	for _, j := range jobs {
		w.do(release("w", j.ID, j.Execution().Token))
	}
	return took
}

// heartbeatLeasesOp renews some of those that stand all the time.
func heartbeatLeasesOp(b *testing.B, w *world, n int) time.Duration {
	jobs := make([]*fsm.Job, n)
	for i := range jobs {
		w.beats++
		jobs[i] = w.leases[w.beats*7919%len(w.leases)]
	}
	return w.beat(b, jobs, "busy")
}

func (w *world) beat(b *testing.B, jobs []*fsm.Job, worker string) time.Duration {
	entries := make([]*fsmpb.Batch, len(jobs))
	for i, j := range jobs {
		w.now++
		entries[i] = w.entry(heartbeat(worker, j.ID, j.Execution().Token))
	}
	done, took := w.timed(entries...)
	allDone(b, done, len(jobs))
	return took
}

// cancelOp cancels waiting jobs from all over the queue.
func cancelOp(b *testing.B, w *world, n int) time.Duration {
	var entries []*fsmpb.Batch
	picked := make(map[string]bool)
	for visits := 0; len(entries) < n && visits < 1000*n; visits++ {
		w.picks++
		j := w.m.Job(benchID(w.made - 1 - w.picks*7919%w.m.Counts().Of(fsm.Unclaimed)))
		if j != nil && j.Status == fsm.Unclaimed && !picked[j.ID] {
			picked[j.ID] = true
			entries = append(entries, w.entry(changeOf(fsm.CancelJobs, j.ID)))
		}
	}
	jobs, took := w.timed(entries...)
	allDone(b, jobs, n)
	w.replace(jobs)
	return took
}

func fireOp(b *testing.B, w *world, n int) time.Duration {
	entries := make([]*fsmpb.Batch, n)
	for i := range entries {
		due := int64(1<<40 + w.fired/100_000)
		entries[i] = w.entry(&fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: cronName(w.fired), DueMs: due, AtMs: w.now, NextMs: due + 1, JobId: "cron " + benchID(w.fired),
		}}})
		w.fired++
	}
	jobs, took := w.timed(entries...)
	allDone(b, jobs, n)
	w.remove(jobs)
	return took
}

// listOp reads pages of a hundred jobs from all over the queue. A page at its
// end may be shorter, so that what counts is the time for a hundred jobs.
func listOp(list func(v *fsm.View, after uint64, fn func(*fsm.Job) bool)) func(*testing.B, *world, int) time.Duration {
	return func(b *testing.B, w *world, n int) time.Duration {
		v := w.m.View()
		oldest, span := oldestWaiting(v), uint64(v.Counts().Of(fsm.Unclaimed))
		read := 0
		start := time.Now()
		for range n {
			w.picks++
			after, left := oldest+uint64(w.picks)*7919%span, 100
			list(v, after, func(*fsm.Job) bool { read++; left--; return left > 0 })
		}
		return time.Since(start) * time.Duration(100*n) / time.Duration(max(read, 1))
	}
}

func oldestWaiting(v *fsm.View) (seq uint64) {
	v.Jobs(fsm.Unclaimed, 0, func(j *fsm.Job) bool { seq = j.Seq; return false })
	return seq
}

func viewOp(_ *testing.B, w *world, n int) time.Duration {
	start := time.Now()
	for range n {
		w.m.View()
	}
	return time.Since(start)
}

// viewEnqueueOp makes a view before each enqueue, which pays for the copies.
func viewEnqueueOp(b *testing.B, w *world, n int) (took time.Duration) {
	var jobs []*fsm.Job
	for _, e := range w.enqueues(n, func(*fsmpb.NewJob) {}) {
		start := time.Now()
		w.m.View()
		took += time.Since(start)
		done, ms := w.timed(e)
		jobs, took = append(jobs, done...), took+ms
	}
	allDone(b, jobs, n)
	w.unmake(jobs)
	return took
}
