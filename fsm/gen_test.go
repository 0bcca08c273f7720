package fsm_test

import (
	"fmt"
	"math"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// workload draws log entries that make sense often and none often enough. It
// learns the leases that were given from the results.
type workload struct {
	now    int64
	epoch  uint64
	leases []grant        // the last ones given
	asked  []*fsmpb.Claim // the last ones made
}

type grant struct {
	worker string
	lease  fsm.Lease
}

// The names are few, so that they meet again.
var (
	jobTypes = []string{"", "a", "b", "c"}
	workers  = []string{"w1", "w2", "", fsm.Anonymous, "w3"}
)

// roll is a number below n that is about evenly spread, where rapid's own
// integers prefer both ends of their range. It shrinks to 0.
func roll(t *rapid.T, n int, label string) int {
	u := rapid.Uint64().Draw(t, label) * 0x9e3779b97f4a7c15
	u ^= u >> 29
	return int((u * 0xbf58476d1ce4e5b9) >> 33 * uint64(n) >> 31)
}

// pick is an element of list, each about as likely.
func pick[T any](t *rapid.T, list []T, label string) T { return list[roll(t, len(list), label)] }

// learn notes what the mutations of b were answered.
func (w *workload) learn(b *fsmpb.Batch, results []fsm.Result) {
	for i, mut := range b.Mutations {
		c := mut.GetClaim()
		if c == nil {
			continue
		}
		for _, j := range results[i].Jobs {
			w.leases = append(w.leases, grant{c.Worker, fsm.Lease{JobID: j.ID, Token: j.Token}})
		}
	}
	w.leases = w.leases[max(0, len(w.leases)-24):]
}

func (w *workload) batch(t *rapid.T) *fsmpb.Batch {
	w.now = w.step(t)
	b := &fsmpb.Batch{NowMs: w.now}
	for range roll(t, 6, "mutations") {
		b.Mutations = append(b.Mutations, w.mutation(t))
	}
	return b
}

// takeover is the first entry of a new leader: it comes after a gap, and begins
// with its registration, or has it further back, where it saves nothing.
func (w *workload) takeover(t *rapid.T) *fsmpb.Batch {
	w.now = sum(w.now, pick(t, []int64{0, 20, 100, 250, 1000, 70_000}, "gap"))
	w.epoch++
	b := &fsmpb.Batch{NowMs: w.now, Mutations: []*fsmpb.Mutation{w.registerBroker(t)}}
	for range roll(t, 4, "mutations") {
		b.Mutations = append(b.Mutations, w.mutation(t))
	}
	if last := len(b.Mutations) - 1; roll(t, 8, "not first") == 7 {
		b.Mutations[0], b.Mutations[last] = b.Mutations[last], b.Mutations[0]
	}
	return b
}

// step is mostly small beside leases and time-outs, which are tens of ms.
func (w *workload) step(t *rapid.T) int64 {
	switch kind := roll(t, 2000, "step"); {
	case kind < 1500:
		return sum(w.now, rapid.Int64Range(0, 15).Draw(t, "ms"))
	case kind < 1850:
		return sum(w.now, rapid.Int64Range(15, 200).Draw(t, "ms"))
	case kind < 1950:
		return sum(w.now, -rapid.Int64Range(0, 1000).Draw(t, "ms back"))
	case kind < 1998:
		return sum(w.now, pick(t, []int64{1000, 61_000, 59_999, 86_400_001}, "ms ahead"))
	}
	return pick(t, []int64{math.MinInt64, math.MaxInt64, math.MaxInt64 - 50}, "absurd clock")
}

func (w *workload) mutation(t *rapid.T) *fsmpb.Mutation {
	type kind = func(*rapid.T) *fsmpb.Mutation
	often := []kind{w.enqueue, w.claim, w.complete, w.fail, w.heartbeat, w.release, w.claim, w.complete, w.heartbeat}
	rarely := []kind{w.registerWorker, w.workerDead, w.registerBroker}
	if roll(t, 12, "rare") == 11 {
		return pick(t, rarely, "kind")(t)
	}
	return pick(t, often, "kind")(t)
}

// odd is now and then a value that no sane caller sends.
func odd(t *rapid.T, sane *rapid.Generator[int64], label string) int64 {
	if roll(t, 60, "odd "+label) < 59 {
		return sane.Draw(t, label)
	}
	return pick(t, []int64{math.MaxInt64, math.MinInt64, -1, math.MaxInt64 - 1, math.MaxInt64 / 2}, label)
}

func (w *workload) enqueue(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Enqueue{}
	for range roll(t, 7, "jobs") {
		op.Jobs = append(op.Jobs, w.newJob(t))
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}
}

// newJob's content follows from its id, mostly: then a repeated id is a
// repeated request.
func (w *workload) newJob(t *rapid.T) *fsmpb.NewJob {
	number := roll(t, 60, "id")
	n := &fsmpb.NewJob{
		Id: fmt.Sprintf("j%02d", number), Type: jobTypes[number%len(jobTypes)],
		Priority: int32(number%7/5) * 5, LeaseMs: int64(number % 3 * 60),
	}
	if number%4 > 0 {
		n.Payload = []byte(fmt.Sprint(number))[:number%4-1]
	}
	if number%5 == 0 {
		attempts := int32(number % 3)
		n.MaxAttempts = &attempts
	}
	if number%6 == 0 {
		n.RunAtMs = sum(w.now, odd(t, rapid.Int64Range(-20, 100), "runAt"))
	}
	switch roll(t, 150, "oddity") {
	case 145:
		n.Id = ""
	case 149:
		n.Priority = pick(t, []int32{math.MinInt32, math.MaxInt32, -1}, "priority")
	case 148:
		n.LeaseMs = odd(t, rapid.Int64(), "lease")
	case 147:
		attempts := pick(t, []int32{math.MinInt32, math.MaxInt32, -1}, "maxAttempts")
		n.MaxAttempts = &attempts
	case 146:
		n.Payload = nil
	}
	return n
}

func (w *workload) worker(t *rapid.T) string { return pick(t, workers, "worker") }

func (w *workload) claim(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Claim{
		Worker:  w.worker(t),
		Types:   rapid.SliceOfN(rapid.SampledFrom(append(jobTypes, "none")), 0, 3).Draw(t, "types"),
		Max:     pick(t, []uint32{1, 2, 3, 0, 5, math.MaxUint32}, "max"),
		LeaseMs: odd(t, rapid.SampledFrom([]int64{0, 10, 50, 200}), "lease"),
	}
	if rapid.Bool().Draw(t, "repeatable") {
		op.RequestId = fmt.Sprintf("r%d", roll(t, 25, "request"))
	}
	if len(w.asked) > 0 && roll(t, 8, "again") == 7 {
		op = pick(t, w.asked, "claim")
	}
	w.asked = append(w.asked, op)
	w.asked = w.asked[max(0, len(w.asked)-3):]
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: op}}
}

// report draws who reports on which lease: mostly the holder with its token.
func (w *workload) report(t *rapid.T) (worker string, l *fsmpb.Lease) {
	g := grant{w.worker(t), fsm.Lease{JobID: "none", Token: 1}}
	if len(w.leases) > 0 {
		g = pick(t, w.leases[max(0, len(w.leases)-pick(t, []int{3, 8, 24}, "recent")):], "lease")
	}
	switch roll(t, 14, "who") {
	case 11:
		g.lease.Token = 0
	case 10:
		g.worker = w.worker(t)
	case 9:
		g.worker, g.lease.Token = w.worker(t), 0
	case 8:
		g.lease.Token += uint64(roll(t, 7, "off by") - 3)
	case 7:
		g.lease.JobID = fmt.Sprintf("j%02d", roll(t, 60, "id"))
		g.lease.Token = 0
	}
	return g.worker, &fsmpb.Lease{JobId: g.lease.JobID, Token: g.lease.Token}
}

func (w *workload) heartbeat(t *rapid.T) *fsmpb.Mutation {
	op := &fsmpb.Heartbeat{}
	for range roll(t, 5, "leases") {
		worker, l := w.report(t)
		op.Worker, op.Leases = worker, append(op.Leases, l)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: op}}
}

func (w *workload) complete(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	op := &fsmpb.Complete{Worker: worker, Lease: l}
	op.Result = rapid.SampledFrom([][]byte{nil, {}, []byte("1")}).Draw(t, "result")
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: op}}
}

func (w *workload) fail(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
		Worker: worker, Lease: l, Error: pick(t, []string{"boom", ""}, "error"),
		Permanent:    roll(t, 5, "permanent") == 4,
		RetryDelayMs: odd(t, rapid.SampledFrom([]int64{0, 10, 100}), "delay"),
	}}}
}

func (w *workload) release(t *rapid.T) *fsmpb.Mutation {
	worker, l := w.report(t)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Release{Release: &fsmpb.Release{Worker: worker, Lease: l}}}
}

func (w *workload) registerWorker(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: w.worker(t), Types: rapid.SliceOfN(rapid.SampledFrom(jobTypes), 0, 2).Draw(t, "types"),
		Version: "1", Address: pick(t, []string{"", "h:1"}, "address"),
	}}}
}

func (w *workload) workerDead(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: w.worker(t)}}}
}

func (w *workload) registerBroker(t *rapid.T) *fsmpb.Mutation {
	w.epoch += uint64(roll(t, 3, "epochs on"))
	op := &fsmpb.RegisterBroker{
		Node:    pick(t, []string{"n1", "n2"}, "node"),
		Address: "h:8080", Epoch: w.epoch, Cluster: "c", Lineage: "l",
	}
	if roll(t, 4, "late") == 3 && w.epoch > 0 {
		op.Epoch--
	}
	if roll(t, 100, "absurd epoch") == 99 {
		op.Epoch = pick(t, []uint64{math.MaxUint64, 1 << 32, 1<<32 - 1}, "epoch")
	}
	if rapid.Bool().Draw(t, "settings") {
		op.Settings = &fsmpb.Settings{
			MaxAttempts:          rapid.Int32Range(0, 3).Draw(t, "max attempts"),
			LeaseMs:              odd(t, rapid.Int64Range(0, 200), "lease"),
			WorkerTimeoutMs:      odd(t, rapid.Int64Range(0, 300), "worker timeout"),
			RetainCompletedMs:    odd(t, rapid.Int64Range(0, 300), "retain"),
			RetainCompletedCount: odd(t, rapid.Int64Range(0, 6), "retain count"),
		}
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: op}}
}
