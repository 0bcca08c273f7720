package archive

import (
	"crypto/sha256"
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

const lineage = "5f0c9c7e-0d3c-4a53-9a52-1f0b8c0a8e11"

// recorder is a machine that applies random entries, and remembers each entry and the state
// after it.
type recorder struct {
	m       *fsm.Machine
	now     int64
	term    uint64  // of LSNs
	terms   *uint64 // the last one that anybody had: no two leaders share one
	ids     int
	origin  fsm.LSN // where it has begun: all entries since then are known
	entries []Entry
	sums    map[fsm.LSN][sha256.Size]byte // of the state after each entry
	asked   fsm.LSN                       // for a checksum; zero: not since the last one was said
}

func newRecorder(now int64) *recorder {
	r := &recorder{m: fsm.New(), now: now, term: 1, terms: new(uint64(1)), sums: make(map[fsm.LSN][sha256.Size]byte)}
	r.note()
	return r
}

// clone returns another machine with the same history.
func (r *recorder) clone() *recorder {
	c := *r
	c.m = rebuilt(r.m)
	c.entries = slices.Clone(r.entries)
	c.sums = make(map[fsm.LSN][sha256.Size]byte)
	for lsn, sum := range r.sums {
		c.sums[lsn] = sum
	}
	return &c
}

func (r *recorder) lsn() fsm.LSN { return r.m.LSN() }

func (r *recorder) note() { r.sums[r.lsn()] = r.m.View().Hash() }

// apply applies an entry through the log's encoding, as a node does.
func (r *recorder) apply(muts ...*fsmpb.Mutation) {
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: r.now, Mutations: muts, Random: uint64(len(r.entries))})
	must(err)
	batch, err := fsm.DecodeEntry(slices.Clone(data))
	must(err)
	meta := r.m.Meta()
	r.m.Apply(meta.LSN().Index+1, r.term-meta.TermBase, batch)
	meta = r.m.Meta()
	r.entries = append(r.entries, Entry{LSN: meta.LSN(), At: meta.NowMs, Data: data})
	r.note()
}

func (r *recorder) newTerm() {
	*r.terms++
	r.term = *r.terms
}

// live applies n random entries, as a queue does.
func (r *recorder) live(t *rapid.T, n int) {
	for range n {
		r.now += pick(t, []int64{0, 1, 5, 40, 1000}, "pass")
		if once(t, 12, "new term") {
			r.newTerm()
		}
		var muts []*fsmpb.Mutation
		for range rapid.IntRange(0, 3).Draw(t, "mutations") {
			muts = append(muts, r.mutation(t))
		}
		r.apply(muts...)
	}
}

// after returns the entries after an LSN.
func (r *recorder) after(lsn fsm.LSN) []Entry {
	i := slices.IndexFunc(r.entries, func(e Entry) bool { return e.LSN.Compare(lsn) > 0 })
	if i < 0 {
		return nil
	}
	return r.entries[i:]
}

func (r *recorder) mutation(t *rapid.T) *fsmpb.Mutation {
	worker := pick(t, []string{"w1", "w2", fsm.Anonymous}, "worker")
	switch rapid.IntRange(0, 13).Draw(t, "kind") {
	case 0, 1, 2:
		return enqueue(r.newJob(t), r.newJob(t))
	case 3, 4:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{
			Worker: worker, Max: 2, RequestId: fmt.Sprint("r", r.roll(t, 6)), LeaseMs: 50,
		}}}
	case 5:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{
			Worker: worker, Lease: r.lease(t), Result: []byte("42"), Log: pick(t, []string{"", "said"}, "log"),
		}}}
	case 6:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{
			Worker: worker, Lease: r.lease(t), Error: "boom",
		}}}
	case 7:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_Heartbeat{Heartbeat: &fsmpb.Heartbeat{
			Worker: worker, Leases: []*fsmpb.Lease{r.lease(t)},
		}}}
	case 8:
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterWorker{RegisterWorker: &fsmpb.RegisterWorker{
			Name: worker, Types: []string{"a"}, Version: "1", Address: "h:1",
		}}}
	case 9:
		running := int64(r.roll(t, 3))
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{Name: "a", MaxRunning: &running}}}
	case 10:
		mut := enqueue(r.newJob(t))
		mut.Request = &fsmpb.Request{Key: fmt.Sprint("q", r.roll(t, 4)), Fingerprint: []byte("f")}
		return mut
	case 11, 12:
		return r.checkState()
	default:
		return r.register(r.m.Meta().Epoch + 1)
	}
}

// checkState requests a checksum, or states the one that the recorder had at its last request.
func (r *recorder) checkState() *fsmpb.Mutation {
	sum, ok := r.sums[r.asked]
	if !ok || r.asked.IsZero() {
		r.asked = fsm.LSN{Term: r.term, Index: r.lsn().Index + 1}
		return &fsmpb.Mutation{Op: &fsmpb.Mutation_CheckState{CheckState: &fsmpb.CheckState{}}}
	}
	op := &fsmpb.StateChecked{Term: r.asked.Term, Index: r.asked.Index, Sum: sum[:]}
	r.asked = fsm.LSN{}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_StateChecked{StateChecked: op}}
}

func (r *recorder) register(epoch uint64) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: "n1", Address: "h:8080", Epoch: epoch, Cluster: "c1", Lineage: lineage,
	}}}
}

func (r *recorder) newJob(t *rapid.T) *fsmpb.NewJob {
	r.ids++
	j := &fsmpb.NewJob{
		Id: fmt.Sprint("j", r.ids), Type: pick(t, []string{"a", "b"}, "type"), Options: &fsmpb.Options{Group: pick(t, []string{"", "g"}, "group")},
		Payload: fmt.Appendf(nil, `{"n":%d}`, r.ids), Priority: int32(r.roll(t, 2)),
	}
	switch r.roll(t, 6) {
	case 5:
		j.RunAtMs = r.now + 100
	case 4:
		j.Optional().Unique = &fsmpb.Unique{Key: "k", Scope: 1}
	case 3:
		if r.ids > 1 {
			j.Optional().After = []string{fmt.Sprint("j", r.ids-1)}
		}
	}
	return j
}

// lease returns one of the current leases, or nil.
func (r *recorder) lease(t *rapid.T) *fsmpb.Lease {
	var running []*fsmpb.Lease
	r.m.View().Jobs(fsm.InProgress, 0, func(j *fsm.Job) bool {
		running = append(running, &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token})
		return true
	})
	if len(running) == 0 {
		return &fsmpb.Lease{JobId: "none", Token: 1}
	}
	return pick(t, running, "lease")
}

func (r *recorder) roll(t *rapid.T, n int) int { return rapid.IntRange(0, n-1).Draw(t, "roll") }

func enqueue(jobs ...*fsmpb.NewJob) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: jobs}}}
}

func pick[T any](t *rapid.T, list []T, label string) T { return rapid.SampledFrom(list).Draw(t, label) }

func once(t *rapid.T, n int, label string) bool { return rapid.IntRange(1, n).Draw(t, label) == n }
