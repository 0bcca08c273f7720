package fsm_test

import (
	"testing"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// world is a machine with waiting jobs, and what a benchmark must know of it.
// Every operation leaves as many waiting jobs behind as there were.
type world struct {
	m           *fsm.Machine
	index       uint64
	now         int64
	made        int // jobs; also the number of the next one
	newJob      func(i int) *fsmpb.NewJob
	leases      []*fsm.Job // that run all the time
	fired       int        // schedules
	beats       int
	picks       int
	backsOff    map[string]bool // types
	bytesPerJob float64
}

// newWorld returns a world whose settings keep a thousand completed jobs, with attempts
// and leases that do not end.
func newWorld(newJob func(i int) *fsmpb.NewJob) *world {
	w := &world{m: fsm.New(), now: 1, newJob: newJob}
	s := fsm.DefaultSettings()
	s.MaxAttempts, s.LeaseMs, s.RetainCompletedCount = 1<<30, 1<<40, 1000
	w.do(registerBroker("n", 1, s))
	return w
}

// fill enqueues jobs, and notes how much memory each takes.
func (w *world) fill(jobs int) {
	before := heapInUse()
	for left := jobs; left > 0; left -= 1000 {
		w.refill(min(1000, left))
	}
	w.bytesPerJob = float64(heapInUse()-before) / float64(jobs)
}

func plainWorld(b *testing.B, jobs int) *world {
	b.Helper()
	w := newWorld(func(i int) *fsmpb.NewJob {
		return &fsmpb.NewJob{Id: benchID(i), Type: "bench", Payload: benchPayload}
	})
	w.fill(jobs)
	w.completeSome()
	return w
}

func mixedWorld(b *testing.B, jobs int) *world {
	b.Helper()
	w := newWorld(func(i int) *fsmpb.NewJob {
		n := &fsmpb.NewJob{Id: benchID(i), Type: typeOf(i), Payload: benchPayload, Tags: []string{tagOf(i)}}
		if i%2 == 0 {
			n.Type, n.Group = "grouped", groupOf(i/2)
		}
		return n
	})
	w.runAlways(100_000)
	w.schedule(100_000)
	w.fill(jobs)
	w.completeSome()
	return w
}

// runAlways claims jobs that no worker reports on.
func (w *world) runAlways(jobs int) {
	const part = 1000
	for from := 0; from < jobs; from += part {
		op := &fsmpb.Enqueue{}
		for i := range part {
			op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: "lease " + benchID(from+i), Type: "leased", Payload: benchPayload})
		}
		w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
		w.leases = append(w.leases, w.do(claim("busy", part, "leased"))[0].Jobs...)
	}
}

func (w *world) schedule(schedules int) {
	for i := range schedules {
		w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: cronName(i), NextMs: 1 << 40, Job: &fsmpb.NewJob{Type: "cron", Payload: benchPayload},
		}}})
	}
}

// completeSome completes as many jobs as are kept, so that each one more lets
// one go.
func (w *world) completeSome() {
	for range 10 {
		jobs, _ := w.timed(w.reports(100, complete)...)
		w.enqueueLike(jobs)
	}
}

// do applies mutations in one entry.
func (w *world) do(muts ...*fsmpb.Mutation) []fsm.Result {
	w.index++
	return w.m.Apply(w.index, 1, &fsmpb.Batch{NowMs: w.now, Mutations: muts})
}

func (w *world) refill(jobs int) {
	op := &fsmpb.Enqueue{}
	for range jobs {
		op.Jobs = append(op.Jobs, w.newJob(w.made))
		w.made++
	}
	w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

// replace deletes jobs and enqueues others like them.
func (w *world) replace(jobs []*fsm.Job) {
	w.remove(jobs)
	w.enqueueLike(jobs)
}

func (w *world) enqueueLike(jobs []*fsm.Job) {
	op := &fsmpb.Enqueue{}
	for _, j := range jobs {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{
			Id: benchID(w.made), Type: j.Type, Payload: j.Payload(), Group: j.Options().Group, Tags: j.Options().Tags,
		})
		w.made++
	}
	w.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
}

func (w *world) remove(jobs []*fsm.Job) {
	ids := make([]string, len(jobs))
	for i, j := range jobs {
		ids[i] = j.ID
	}
	w.do(changeOf(fsm.DeleteJobs, ids...))
}

// reports claims jobs, and makes a report on each.
func (w *world) reports(jobs int, report func(worker, id string, token uint64) *fsmpb.Mutation) []*fsmpb.Batch {
	var list []*fsmpb.Batch
	for _, j := range w.do(claim("w", uint32(jobs)))[0].Jobs {
		list = append(list, w.entry(report("w", j.ID, j.Execution().Token)))
	}
	return list
}

// unmake removes the youngest jobs; their ids are used again.
func (w *world) unmake(jobs []*fsm.Job) {
	w.remove(jobs)
	w.made -= len(jobs)
}

func (w *world) entry(m *fsmpb.Mutation) *fsmpb.Batch {
	return &fsmpb.Batch{NowMs: w.now, Mutations: []*fsmpb.Mutation{m}}
}

// timed applies entries of one mutation each, and returns the jobs that they
// are about and the time that it took.
func (w *world) timed(entries ...*fsmpb.Batch) ([]*fsm.Job, time.Duration) {
	jobs := make([]*fsm.Job, 0, len(entries))
	start := time.Now()
	for _, e := range entries {
		w.index++
		if r := w.m.Apply(w.index, 1, e)[0]; r.Code == fsm.OK && len(r.Jobs) > 0 {
			jobs = append(jobs, r.Jobs[0])
		}
	}
	return jobs, time.Since(start)
}
