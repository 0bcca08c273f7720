package fsm_test

import (
	"bytes"
	"crypto/sha256"
	"maps"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// cluster is replicas of one log. steady applies all of it and is never restored; the
// others are restored from snapshots. None may ever differ from it.
type cluster struct {
	log      log
	workload workload
	steady   *fsm.Machine
	restored map[string]*fsm.Machine
	tiny     *[3]int // the budgets of an entry; nil: the usual ones
	views    []frozen
	given    tokens

	history  []applied // the last entries
	snapshot []byte    // of steady, before history
}

// applied is an entry of the log.
type applied struct {
	at   log
	data []byte
}

// frozen is a view, with what it looked like when it was taken.
type frozen struct {
	view *fsm.View
	hash [sha256.Size]byte
	lsn  fsm.LSN
	jobs []*fsm.Job
}

func newCluster() *cluster {
	return &cluster{
		log: log{term: 1}, workload: workload{now: 1_000_000},
		steady: fsm.New(),
		restored: map[string]*fsm.Machine{
			"restarts": fsm.New(), // from its own snapshot
			"installs": fsm.New(), // from the snapshot of another
			"replays":  fsm.New(), // from an older snapshot and the log since
			"forgets":  fsm.New(), // from its own snapshot, before each entry
		},
	}
}

// shrink makes the budgets of m tiny, if they are to be.
func (c *cluster) shrink(m *fsm.Machine) *fsm.Machine {
	if c.tiny != nil {
		m.SetBudgets(c.tiny[0], c.tiny[1], c.tiny[2])
	}
	return m
}

// restore replaces a replica by the copy of a machine.
func (c *cluster) restore(t *rapid.T, name string, from *fsm.Machine) {
	c.restored[name] = c.shrink(copyOf(t, from))
}

// replay restores a replica from the older snapshot and applies the entries since.
func (c *cluster) replay(t *rapid.T) {
	if c.snapshot == nil {
		return
	}
	m, err := fsm.Decode(bytes.NewReader(c.snapshot))
	if err != nil {
		t.Fatal(err)
	}
	c.shrink(m)
	for _, e := range c.history {
		m.Apply(e.at.index, e.at.term, decode(t, e.data))
	}
	if m.View().Hash() != c.steady.View().Hash() {
		t.Fatalf("another state after %d entries from a snapshot", len(c.history))
	}
	c.restored["replays"] = m
}

// save takes the snapshot that replay begins with.
func (c *cluster) save(t *rapid.T) { c.snapshot, c.history = snapshot(t, c.steady), nil }

func (c *cluster) apply(t *rapid.T, b *fsmpb.Batch) {
	c.log.next(t)
	if m := c.restored["forgets"]; m != nil {
		c.restore(t, "forgets", m)
	}
	data, before := entry(t, b), c.steady.Meta()
	c.history = append(c.history, applied{c.log, data})
	own := bytes.Clone(data)
	shared, err := fsm.DecodeEntry(own)
	if err != nil {
		t.Fatal(err)
	}
	want := c.steady.Apply(c.log.index, c.log.term, shared)
	for i := range own { // what the machine keeps must not be memory of the entry
		own[i] = '#'
	}
	events, hash, whole := eventsOf(c.steady), [sha256.Size]byte{}, once(t, 3, "compare the states")
	if whole {
		hash = c.steady.View().Hash()
	}
	for name, m := range c.restored {
		got := m.Apply(c.log.index, c.log.term, decode(t, data))
		compareAnswers(t, b, answers(got), answers(want))
		if got := eventsOf(m); !slices.Equal(got, events) {
			t.Fatalf("%s: events %v, want %v", name, got, events)
		}
		if whole && m.View().Hash() != hash {
			t.Fatalf("%s: another state", name)
		}
	}
	if err := c.steady.CheckIndexes(); err != nil {
		t.Fatal(err)
	}
	c.workload.learn(b, want)
	c.checkProgress(t, before)
	c.given.check(t, b, want, c.steady.Events())
}

// checkProgress checks what may only grow.
func (c *cluster) checkProgress(t *rapid.T, before *fsm.Meta) {
	after := c.steady.Meta()
	if after.NowMs < before.NowMs || after.LeasesFromMs < before.LeasesFromMs || after.LSN().Compare(before.LSN()) <= 0 || after.LastToken < before.LastToken ||
		after.Epoch < before.Epoch || after.LastSeq < before.LastSeq ||
		after.LastTurn < before.LastTurn {
		t.Fatalf("the state went back:\nfrom %+v\n  to %+v", before, after)
	}
	ended := map[fsm.Status]uint64{}
	for _, e := range c.steady.Events() {
		if e.Kind == fsm.JobChanged && e.From != e.Job.Status { // a second result does not count
			ended[e.Job.Status]++
		}
	}
	if after.CompletedTotal-before.CompletedTotal != ended[fsm.Completed] || after.DeadTotal-before.DeadTotal != ended[fsm.Dead] ||
		after.CancelledTotal-before.CancelledTotal != ended[fsm.Cancelled]+ended[fsm.Expired] {
		t.Fatalf("ended %v, but the totals went\nfrom %+v\n  to %+v", ended, before, after)
	}
}

// tokens are the fencing tokens that were given.
type tokens struct {
	last  uint64
	perID map[string][]uint64 // those of the last entry that claimed the job
}

// check checks the guarantees to workers: each claim gets a greater token, and no report
// is accepted under a token other than the job's last.
func (g *tokens) check(t *rapid.T, b *fsmpb.Batch, results []fsm.Result, events []fsm.Event) {
	if g.perID == nil {
		g.perID = make(map[string][]uint64)
	}
	given := map[string][]uint64{}
	for _, e := range events {
		if e.Kind != fsm.JobChanged || e.Job.Status != fsm.InProgress {
			continue
		}
		if e.Job.Execution().Token <= g.last {
			t.Fatalf("token %d after %d", e.Job.Execution().Token, g.last)
		}
		g.last = e.Job.Execution().Token
		given[e.Job.ID] = append(given[e.Job.ID], e.Job.Execution().Token)
	}
	for i, mut := range b.Mutations {
		r := results[i]
		if r.LSN != (fsm.LSN{}) {
			continue // an old answer
		}
		for n, l := range reportedOn(mut) {
			code := r.Code
			if len(r.Codes) > 0 {
				code = r.Codes[n]
			}
			if code.Done() && l.Token != 0 && !slices.Contains(slices.Concat(g.perID[l.JobId], given[l.JobId]), l.Token) {
				t.Fatalf("%v accepted; the last tokens are %d and %d", mut, g.perID[l.JobId], given[l.JobId])
			}
		}
	}
	maps.Copy(g.perID, given)
}

func reportedOn(mut *fsmpb.Mutation) (leases []*fsmpb.Lease) {
	switch op := mut.Op.(type) {
	case *fsmpb.Mutation_Heartbeat:
		return op.Heartbeat.Leases
	case *fsmpb.Mutation_Complete:
		return []*fsmpb.Lease{op.Complete.Lease}
	case *fsmpb.Mutation_Fail:
		return []*fsmpb.Lease{op.Fail.Lease}
	case *fsmpb.Mutation_Release:
		return []*fsmpb.Lease{op.Release.Lease}
	case *fsmpb.Mutation_StoreStep:
		return []*fsmpb.Lease{op.StoreStep.Lease}
	case *fsmpb.Mutation_Suspend:
		return []*fsmpb.Lease{op.Suspend.Lease}
	case *fsmpb.Mutation_AttachArtefact:
		return []*fsmpb.Lease{op.AttachArtefact.Lease}
	}
	return nil
}

// copyOf sends m through a snapshot.
func copyOf(t rapid.TB, m *fsm.Machine) *fsm.Machine {
	t.Helper()
	var buf bytes.Buffer
	if err := m.View().Encode(&buf); err != nil {
		t.Fatal(err)
	}
	back, err := fsm.Decode(&buf)
	if err != nil {
		t.Fatal(err)
	}
	return back
}

func (c *cluster) freeze() {
	v := c.steady.View()
	c.views = append(c.views, frozen{v, v.Hash(), v.LSN(), jobsOf(v)})
}

var allStatuses = []fsm.Status{fsm.Scheduled, fsm.Unclaimed, fsm.InProgress, fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Blocked, fsm.Expired}

func jobsOf(v *fsm.View) (jobs []*fsm.Job) {
	v.List(fsm.Index{}, allStatuses, 0, func(j *fsm.Job) bool { jobs = append(jobs, j); return true })
	return bareJobs(jobs)
}

func (c *cluster) checkViews(t *rapid.T) {
	for _, f := range c.views {
		if f.view.Hash() != f.hash || f.view.LSN() != f.lsn || !reflect.DeepEqual(jobsOf(f.view), f.jobs) {
			t.Fatalf("the view of %v changed afterwards", f.lsn)
		}
	}
}

func TestReplicasStayEqual(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) { checkReplicas(t, newCluster()) })
}

func checkReplicas(t *rapid.T, c *cluster) {
	t.Repeat(map[string]func(*rapid.T){
		"entry":    func(t *rapid.T) { c.apply(t, c.workload.batch(t)) },
		"entry2":   func(t *rapid.T) { c.apply(t, c.workload.batch(t)) },
		"entry3":   func(t *rapid.T) { c.apply(t, c.workload.batch(t)) },
		"takeover": func(t *rapid.T) { c.apply(t, c.workload.takeover(t)) },
		"restart":  func(t *rapid.T) { c.restore(t, "restarts", c.restored["restarts"]) },
		"install":  func(t *rapid.T) { c.restore(t, "installs", c.steady) },
		"save":     c.save,
		"replay":   c.replay,
		"view":     func(*rapid.T) { c.freeze() },
		"other":    func(t *rapid.T) { c.log.next(t) }, // an entry of raft's own
	})
	for name, m := range c.restored {
		if m.View().Hash() != c.steady.View().Hash() {
			t.Fatalf("%s: another state in the end", name)
		}
	}
	c.checkViews(t)
}
