package flush

import (
	"fmt"
	"math/rand/v2"
	"strings"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/script"
)

// load generates the operations of a queue's users. From time to time it fills the queue
// and then empties it, so that the document changes its form.
type load struct {
	r        *rand.Rand
	name     string // of the cluster, for ids
	ids      int
	growing  bool
	payloads int // largest, bytes
}

func newLoad(r *rand.Rand, name string) *load {
	return &load{r: r, name: name, growing: true, payloads: 4 << 10}
}

// simSettings returns settings with a short retention.
func simSettings() *fsmpb.Settings {
	s := fsm.DefaultSettings()
	s.RetainCompletedMs, s.RetainCompletedCount = 3000, 4
	s.RequestMs, s.RequestCount = 3000, 10
	s.LeaseMs = 2000
	return s
}

// mutations returns the mutations of one entry.
func (g *load) mutations(m *fsm.Machine, now int64) []*fsmpb.Mutation {
	if g.r.IntN(12) == 0 {
		g.growing = !g.growing
	}
	var muts []*fsmpb.Mutation
	for range g.r.IntN(4) {
		muts = append(muts, g.mutation(m, now))
	}
	if g.r.IntN(20) == 0 { // several kinds of report in one
		muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: g.reports(m)}}})
	}
	return muts
}

func (g *load) mutation(m *fsm.Machine, now int64) *fsmpb.Mutation {
	n := g.r.IntN(100)
	switch {
	case n < 8:
		return g.admin(now)
	case n < 16:
		return g.cron(now)
	case g.growing && n < 70 || n < 24:
		return g.enqueue(now)
	case n < 45:
		return g.claim()
	case !g.growing && n < 65:
		kind := fsm.DeleteJobs // jobs that have ended
		if g.r.IntN(2) == 0 {
			kind = fsm.CancelJobs
		}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Change{Change: &fsmpb.Change{
			Kind: uint32(kind), Filter: &fsmpb.Filter{}, Limit: uint32(g.r.IntN(20)),
		}}}
	default:
		return g.report(m)
	}
}

func (g *load) enqueue(now int64) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for range 1 + g.r.IntN(3) {
		op.Jobs = append(op.Jobs, g.newJob(now))
	}
	if g.r.IntN(10) == 0 {
		op.NewBatch = &fsmpb.NewBatch{Id: g.id("b"), Callback: g.newJob(now)}
		for _, j := range op.Jobs {
			j.Batch = op.NewBatch.Id
		}
	}
	mut := &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
	if g.r.IntN(4) == 0 {
		mut.Request = &fsmpb.Request{Key: g.id("q"), Fingerprint: []byte("f")}
	}
	return mut
}

func (g *load) id(kind string) string {
	g.ids++
	return fmt.Sprintf("%s-%s%d", g.name, kind, g.ids)
}

func (g *load) newJob(now int64) *fsmpb.NewJob {
	j := &fsmpb.NewJob{Id: g.id("j"), Type: g.oneOf("a", "b", "c"), Group: g.oneOf("", "g"), Payload: g.payload()}
	switch g.r.IntN(8) {
	case 0:
		j.RunAtMs = now + g.r.Int64N(3000)
	case 1:
		j.Unique = &fsmpb.Unique{Key: g.oneOf("k", "l"), Scope: 1}
	case 2:
		j.After = []string{fmt.Sprintf("%s-j%d", g.name, g.r.IntN(g.ids)+1)}
	case 3:
		j.Tags = []string{"t1", g.oneOf("t2", "t3")}
	}
	return j
}

// payload returns a payload that is mostly short, and either typical or incompressible.
func (g *load) payload() []byte {
	size := int(float64(g.payloads) * g.r.Float64() * g.r.Float64() * g.r.Float64())
	if g.r.IntN(2) == 0 {
		return noise(g.r, size)
	}
	return fmt.Appendf(nil, `{"to":"user%d@example.org","text":%q}`, g.r.IntN(1000), strings.Repeat("lorem ipsum ", size/12))
}

// noise returns a JSON string that cannot be compressed.
func noise(r *rand.Rand, size int) []byte {
	const letters = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_"
	p := make([]byte, size+2)
	for i := range p {
		p[i] = letters[r.IntN(len(letters))]
	}
	p[0], p[len(p)-1] = '"', '"'
	return p
}

func (g *load) oneOf(names ...string) string { return names[g.r.IntN(len(names))] }

func (g *load) worker() string { return g.oneOf("w1", "w2", "w3") }

func (g *load) claim() *fsmpb.Mutation {
	worker, most := g.worker(), uint32(1+g.r.IntN(8))
	return script.ClaimAs(worker, fmt.Sprint("r", g.r.IntN(6)), most)
}

// report returns a report about one of the current leases.
func (g *load) report(m *fsm.Machine) *fsmpb.Mutation { return g.reports(m)[0] }

func (g *load) reports(m *fsm.Machine) []*fsmpb.Mutation {
	var muts []*fsmpb.Mutation
	m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		muts = append(muts, g.reportOn(j.Execution().Worker, &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}))
		return len(muts) < 8
	})
	if len(muts) == 0 {
		return []*fsmpb.Mutation{g.claim()}
	}
	g.r.Shuffle(len(muts), func(i, j int) { muts[i], muts[j] = muts[j], muts[i] })
	return muts
}

func (g *load) reportOn(worker string, lease *fsmpb.Lease) *fsmpb.Mutation {
	switch g.r.IntN(10) {
	case 0:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: worker, Lease: lease, Error: "boom"}}}
	case 1:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: worker, Lease: lease}}}
	case 2:
		lease.Progress = &fsmpb.Progress{Percent: 50, Message: "half"}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{Worker: worker, Leases: []*fsmpb.Lease{lease}}}}
	case 3:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_ForceComplete{ForceComplete: &fsmpb.ForceComplete{JobId: lease.JobId, Result: g.payload()[:0]}}}
	default:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: worker, Lease: lease, Result: g.payload()[:0]}}}
	}
}

func (g *load) admin(now int64) *fsmpb.Mutation {
	limit, paused := g.r.Int64N(4)-1, g.r.IntN(4) == 0
	switch g.r.IntN(4) {
	case 0:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "c", MaxRunning: &limit, Paused: &paused}}}
	case 1:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{Name: g.worker(), Types: []string{"a"}}}}
	case 2:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: g.worker()}}}
	default:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: &fsmpb.Announce{Kind: 1, Text: fmt.Sprint("at ", now)}}}
	}
}

func (g *load) cron(now int64) *fsmpb.Mutation {
	name := g.oneOf("c1", "c2")
	switch g.r.IntN(5) {
	case 0:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_DeleteCron{DeleteCron: &fsmpb.DeleteCron{Name: name}}}
	case 1:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: &fsmpb.PauseCron{Name: name, Paused: true}}}
	case 2:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_TriggerCron{TriggerCron: &fsmpb.TriggerCron{Name: name, JobId: g.id("j")}}}
	case 3:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{
			Name: name, DueMs: now / 1000 * 1000, AtMs: now / 1000 * 1000, NextMs: now/1000*1000 + 1000, JobId: g.id("j"),
		}}}
	default:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_PutCron{PutCron: &fsmpb.PutCron{
			Name: name, Spec: "* * * * * *", Job: g.newJob(now), NextMs: now / 1000 * 1000,
		}}}
	}
}
