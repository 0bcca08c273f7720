package fsm_test

import (
	"fmt"
	"math"
	"strings"

	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// workload draws log entries that make sense often and none often enough. It
// learns from the results which jobs there are, and the leases that were given.
type workload struct {
	now      int64
	begun    bool
	crowded  bool // more falls due in an entry
	epoch    uint64
	leases   []grant                  // the last ones given
	asked    []*fsmpb.Claim           // the last ones made
	known    []string                 // ids of jobs, the last ones met
	contents map[string]*fsmpb.NewJob // what was last asked for under an id
	batches  map[string]*fsmpb.NewBatch
	nextAt   map[string]int64 // by name of a schedule, as far as it is known
	specs    map[string]*fsmpb.PutCron
	sent     []*fsmpb.Mutation // the last ones with a request key
	cursor   fsm.Place         // where the last change by filter stopped

	suspended []wait            // the last jobs that were suspended for a signal
	links     []*fsmpb.MakeLink // the last ones made
	flows     []string          // ids of the last batches with jobs that run after each other
	files     []string          // ids of the last artefacts that were reserved
}

type grant struct {
	worker string
	job    string
	token  uint64
}

// The names are few, so that they meet again.
var (
	jobTypes  = []string{"", "a", "b", "c"}
	workers   = []string{"w1", "w2", "", fsm.Anonymous, "w3"}
	groups    = []string{"", "g1", "g2", "g3"}
	tags      = []string{"t1", "t2", "t3"}
	limitSets = [][]string{
		nil, {"a"}, {"b"}, {"a", "b"}, nil, {"ab"}, {"t1\x00a", "t1\x00b"}, {"a", "ab", "b"},
	}
	cronNames = []string{"c1", "c2", "c3"}
	batchIDs  = []string{"b1", "b2", "b3", "b4"}
)

// idCount is the number of ids that producers choose from.
const idCount = 60

func jobID(number int) string { return fmt.Sprintf("j%02d", number) }

// roll is a number below n that is about evenly spread, where rapid's own
// integers prefer both ends of their range. It shrinks to 0.
func roll(t *rapid.T, n int, label string) int {
	u := rapid.Uint64().Draw(t, label) * 0x9e3779b97f4a7c15
	u ^= u >> 29
	return int((u * 0xbf58476d1ce4e5b9) >> 33 * uint64(n) >> 31)
}

// once is true about once in n times.
func once(t *rapid.T, n int, label string) bool { return roll(t, n, label) == n-1 }

// pick is an element of list, each about as likely.
func pick[T any](t *rapid.T, list []T, label string) T { return list[roll(t, len(list), label)] }

// lastOf is the end of a list, at most n long.
func lastOf[T any](list []T, n int) []T { return list[max(0, len(list)-n):] }

// odd is now and then a value that no sane caller sends.
func odd(t *rapid.T, sane *rapid.Generator[int64], label string) int64 {
	if !once(t, 60, "odd "+label) {
		return sane.Draw(t, label)
	}
	return pick(t, []int64{math.MaxInt64, math.MinInt64, -1, math.MaxInt64 - 1, math.MaxInt64 / 2}, label)
}

// learn notes what the mutations of b were answered.
func (w *workload) learn(b *fsmpb.Batch, results []fsm.Result) {
	for i, mut := range b.Mutations {
		w.learnOne(mut, results[i])
	}
	w.leases = lastOf(w.leases, 24)
	w.known = lastOf(w.known, 24)
}

func (w *workload) learnOne(mut *fsmpb.Mutation, r fsm.Result) {
	c := mut.GetClaim()
	for _, j := range r.Jobs {
		if j == nil {
			continue
		}
		if w.known = append(w.known, j.ID); c != nil {
			w.leases = append(w.leases, grant{c.Worker, j.ID, j.Execution().Token})
		}
	}
	w.learnWaits(mut, r)
	if mut.GetChange().GetFilter() != nil {
		w.cursor = r.Next
	}
}

func (w *workload) batch(t *rapid.T) *fsmpb.Batch {
	w.now = w.step(t)
	b := &fsmpb.Batch{NowMs: w.now, Random: rapid.Uint64().Draw(t, "random")}
	b.FlushedTerm, b.FlushedIndex = uint64(roll(t, 3, "flushed term")), rapid.Uint64().Draw(t, "flushed index")
	for range w.size(t) {
		b.Mutations = append(b.Mutations, w.requested(t))
	}
	if once(t, 12, "lanes") {
		b.Mutations = append(b.Mutations, w.lanes(t)...)
	}
	if once(t, 12, "flow") {
		b.Mutations = append(b.Mutations, w.flow(t)...)
	}
	if once(t, 20, "story") {
		b.Mutations = append(b.Mutations, w.story(t)...)
	}
	if once(t, 30, "check the state") {
		b.Mutations = append(b.Mutations, raiseLevel(fsm.MaxLevel), checkState())
	}
	return b
}

// size is the number of mutations of an entry.
func (w *workload) size(t *rapid.T) int {
	if w.crowded {
		return roll(t, 14, "mutations")
	}
	return roll(t, 6, "mutations")
}

// takeover is the first entry of a new leader: it comes after a gap, and begins
// with its registration, or has it further back, where it saves nothing.
func (w *workload) takeover(t *rapid.T) *fsmpb.Batch {
	w.now = sum(w.now, pick(t, []int64{0, 20, 100, 250, 1000, 70_000}, "gap"))
	w.epoch++
	b := &fsmpb.Batch{NowMs: w.now, Mutations: []*fsmpb.Mutation{w.registerBroker(t)}, Random: rapid.Uint64().Draw(t, "random")}
	for range roll(t, 4, "mutations") {
		b.Mutations = append(b.Mutations, w.requested(t))
	}
	if last := len(b.Mutations) - 1; once(t, 8, "not first") {
		b.Mutations[0], b.Mutations[last] = b.Mutations[last], b.Mutations[0]
	}
	return b
}

// step is mostly small beside leases and time-outs, which are tens of ms. The
// first one is sane: a machine without a clock knows no "not yet".
func (w *workload) step(t *rapid.T) int64 {
	if !w.begun {
		w.begun = true
		return w.now
	}
	rest := 1500
	if w.crowded {
		rest = 1000
	}
	switch kind := roll(t, 2000, "step"); {
	case kind < rest:
		return sum(w.now, rapid.Int64Range(0, 15).Draw(t, "ms"))
	case kind < 1850:
		return sum(w.now, rapid.Int64Range(15, 200).Draw(t, "ms"))
	case kind < 1950:
		return sum(w.now, -rapid.Int64Range(0, 1000).Draw(t, "ms back"))
	case kind < 1998:
		return sum(w.now, pick(t, []int64{1000, 61_000, 59_999, 86_400_001}, "ms ahead"))
	}
	return pick(t, []int64{math.MaxInt64, math.MinInt64, math.MaxInt64 - 50}, "absurd clock")
}

type drawn = func(*rapid.T) *fsmpb.Mutation

// mutation is one without a request key.
func (w *workload) mutation(t *rapid.T) *fsmpb.Mutation {
	often := []drawn{w.enqueue, w.claim, w.complete, w.fail, w.heartbeat, w.release, w.claim, w.complete, w.enqueue}
	if w.crowded && once(t, 12, "limit") {
		return pick(t, []drawn{w.setRate, w.setLimit}, "of")(t)
	}
	sometimes := []drawn{w.change, w.change, w.editJob, w.editJob, w.editJob, w.setQueue, w.setQueue, w.setLimit, w.throttleLimit, w.throttleLimit, w.putCron, w.fireCron, w.fireCron, w.triggerCron, w.group, w.forceComplete, w.storeStep, w.suspend, w.suspend, w.sendSignal, w.sendSignal, w.makeLink, w.retryFlow, w.retryFlow, w.reserveArtefact, w.reserveArtefact, w.attachArtefact, w.attachArtefact, w.dropArtefacts}
	rarely := []drawn{w.registerWorker, w.workerDead, w.setQuiet, w.registerBroker, w.pauseCron, w.deleteCron, w.announce, w.token, w.token, w.hook, w.hook, w.hook}
	switch kind := roll(t, 24, "kind"); {
	case kind == 23 || kind == 22:
		return pick(t, rarely, "rare")(t)
	case kind > 14:
		return pick(t, sometimes, "kind")(t)
	}
	return pick(t, often, "often")(t)
}

// requested is a mutation that may have a request key, and may be a repetition.
func (w *workload) requested(t *rapid.T) *fsmpb.Mutation {
	if len(w.sent) > 0 && once(t, 12, "repeat") {
		mut := proto.CloneOf(pick(t, w.sent, "sent"))
		if once(t, 5, "conflict") {
			mut.Request.Fingerprint = fmt.Appendf(nil, "another %T", mut.Op)
		}
		return mut
	}
	mut := w.mutation(t)
	if mut.GetRegisterBroker() == nil && once(t, 6, "with key") {
		mut.Request = &fsmpb.Request{Key: pick(t, []string{"", "", "t1\x00", "t2\x00"}, "tenant") + fmt.Sprint("q", roll(t, 20, "key"))}
		mut.Request.Fingerprint = fmt.Appendf(nil, "%x", fingerprintOf(mut))
		w.sent = lastOf(append(w.sent, mut), 4)
	}
	return mut
}

// fingerprintOf is the same for the same request only, about.
func fingerprintOf(mut *fsmpb.Mutation) uint64 {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(mut)
	if err != nil {
		panic(err)
	}
	h := uint64(14695981039346656037)
	for _, b := range data {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}

func (w *workload) worker(t *rapid.T) string { return pick(t, workers, "worker") }

func (w *workload) registerWorker(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
		Name: w.worker(t), Types: rapid.SliceOfN(rapid.SampledFrom(jobTypes), 0, 2).Draw(t, "types"),
		Version: "1", Address: pick(t, []string{"", "h:1"}, "address"), Capacity: rapid.Uint32Range(0, 2).Draw(t, "capacity"),
		Instance: w.instance(t), Quota: w.recordQuota(t),
	}}}
}

func (w *workload) setQuiet(t *rapid.T) *fsmpb.Mutation {
	return setQuiet(w.worker(t), rapid.Bool().Draw(t, "quiet"))
}

func (w *workload) workerDead(t *rapid.T) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_WorkerDead{WorkerDead: &fsmpb.WorkerDead{Name: w.worker(t), Instance: w.instance(t)}}}
}

// instance draws one of few, so that processes share names.
func (w *workload) instance(t *rapid.T) uint64 { return pick(t, []uint64{0, 1, 2}, "instance") }

// announce says something of any length, in characters of several bytes.
func (w *workload) announce(t *rapid.T) *fsmpb.Mutation {
	kinds := []fsm.AnnounceKind{
		fsm.AnnounceBucketAway, fsm.AnnounceBucketBack, fsm.AnnounceWritesRefused, fsm.AnnounceWritesAccepted,
		fsm.AnnounceBucketDamaged, fsm.AnnounceBucketHealed,
	}
	text := "x"[:roll(t, 2, "shift")] + strings.Repeat("é", pick(t, []int{0, 3, 127, 128, 129, 500}, "length"))
	return announce(pick(t, kinds, "announce"), text)
}

func (w *workload) registerBroker(t *rapid.T) *fsmpb.Mutation {
	w.epoch += uint64(roll(t, 3, "epochs on"))
	op := &fsmpb.RegisterBroker{
		Node:    pick(t, []string{"n1", "n2"}, "node"),
		Address: "h:8080", Epoch: w.epoch, Cluster: "c", Lineage: "l",
	}
	if once(t, 4, "late") && w.epoch > 0 {
		op.Epoch--
	}
	if once(t, 100, "absurd epoch") {
		op.Epoch = pick(t, []uint64{math.MaxUint64, 1 << 32, 1<<32 - 1}, "epoch")
	}
	if rapid.Bool().Draw(t, "settings") {
		op.Settings = w.settings(t)
	}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: op}}
}

func (w *workload) settings(t *rapid.T) *fsmpb.Settings {
	s := &fsmpb.Settings{
		MaxAttempts:          rapid.Int32Range(0, 3).Draw(t, "max attempts"),
		LeaseMs:              odd(t, rapid.Int64Range(0, 200), "lease"),
		WorkerTimeoutMs:      odd(t, rapid.Int64Range(0, 300), "worker timeout"),
		RetainCompletedMs:    odd(t, rapid.SampledFrom([]int64{3000, 300, 50, 0}), "retain"),
		RetainCompletedCount: odd(t, rapid.SampledFrom([]int64{100, 6, 2, 0}), "retain count"),
		RequestMs:            odd(t, rapid.SampledFrom([]int64{5000, 500, 50, 0, 400_000}), "request time"),
		RequestCount:         odd(t, rapid.SampledFrom([]int64{100, 6, 2, 0}), "request count"),
	}
	if once(t, 3, "quotas") {
		s.MaxJobs = odd(t, rapid.SampledFrom([]int64{0, 20, 5}), "max jobs")
		s.MaxBytes = odd(t, rapid.SampledFrom([]int64{0, 25, 10}), "max bytes")
		s.MaxPayload = odd(t, rapid.SampledFrom([]int64{0, 2, 1}), "max payload")
	}
	return s
}
