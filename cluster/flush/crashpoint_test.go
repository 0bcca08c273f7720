package flush

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// everyPointEnv enables all crash points, which takes minutes; the default is a sample.
const everyPointEnv = "OSQUEUE_EVERY_CRASH_POINT"

// mishap is a failure at the n-th operation on the bucket.
type mishap struct {
	name string
	rule fault.Rule // the test sets Skip; no Kind: none
	// all and leader select the nodes that die at that operation; half lets the operation
	// still take place.
	all, leader, half bool
}

var mishaps = []mishap{
	{name: "lose-request", rule: fault.Rule{Kind: fault.LoseRequest}},
	{name: "lose-answer", rule: fault.Rule{Kind: fault.LoseAnswer}},
	{name: "deliver-late", rule: fault.Rule{Kind: fault.DeliverLate, Delay: time.Second}},
	{name: "deliver-at-the-end", rule: fault.Rule{Kind: fault.DeliverLate}},
	{name: "throttle", rule: fault.Rule{Kind: fault.Throttle}},
	{name: "reject", rule: fault.Rule{Kind: fault.Reject}},
	{name: "stall", rule: fault.Rule{Kind: fault.Stall}},
	{name: "crash", all: true},
	{name: "crash-after", all: true, half: true},
	{name: "leader-crash", leader: true},
	{name: "leader-crash-after", leader: true, half: true},
}

// TestEveryCrashPoint causes each mishap at each operation of a story that writes and
// removes every kind of object. The document is readable at every moment, is a state that
// existed, and never goes back; all confirmed entries are there; and the surviving nodes
// continue.
func TestEveryCrashPoint(t *testing.T) {
	c := storagetest.NewCounts()
	var ops int
	synctest.Test(t, func(t *testing.T) {
		s := newStory(t, c, mishap{}, -1)
		s.tell()
		ops = s.ops()
	})
	if t.Failed() {
		return
	}
	t.Logf("%d operations", ops)
	step := 14
	if os.Getenv(everyPointEnv) != "" {
		step = 1
	}
	t.Run("mishaps", func(t *testing.T) {
		for i, m := range mishaps {
			t.Run(m.name, func(t *testing.T) {
				t.Parallel()
				hit := 0
				for at := (5 * i) % step; at < ops; at += step {
					synctest.Test(t, func(t *testing.T) {
						s := newStory(t, c, m, at)
						s.tell()
						hit += s.hits()
						if t.Failed() {
							t.Fatalf("with %s at operation %d", m.name, at)
						}
					})
				}
				if hit == 0 {
					t.Error("it never happened")
				}
			})
		}
	})
	if !t.Failed() {
		c.Demand(t, "confirmed", "carried over", "adoption", "jobs", "no jobs", "jobs leave", "jobs return", "young",
			"segment", "segment index", "checkpoint", "step of a backlog", "collected", "collected late", "fenced", "final flush", "died", "leader died")
	}
}

// story is a fixed sequence of events, up to the mishap.
type story struct {
	*world
	mishap mishap
	at     int // operation of the mishap
	faults *fault.Bucket
	fault  *fault.Injection
	past   []*ensemble
	*ensemble
	dead bool // the mishap has killed its target
}

func newStory(t testing.TB, c *storagetest.Counts, m mishap, at int) *story {
	w := newWorld(t, c)
	s := &story{world: w, mishap: m, at: at, faults: fault.New(w.record, 1)}
	w.below = s.faults
	w.closing = append(w.closing, s.faults.Close)
	if m.rule.Kind != "" {
		m.rule.Skip, m.rule.Times = at, 1
		s.fault = s.faults.Inject(m.rule)
	}
	return s
}

func (s *story) ops() (n int) {
	for _, c := range s.past {
		n += c.gate.ops()
	}
	return n
}

func (s *story) hits() int {
	switch {
	case s.fault != nil:
		return s.fault.Hits()
	case s.dead:
		return 1
	}
	return 0
}

// begin starts a cluster with empty disks.
func (s *story) begin() {
	before := s.ops()
	r := rand.New(rand.NewPCG(uint64(len(s.past)), 3))
	s.ensemble = newEnsemble(s.world, simConfig(), fmt.Sprint("C", len(s.past)), r)
	s.cfg.Window = 0
	s.past = append(s.past, s.ensemble)
	if s.mishap.all && s.at >= before && !s.dead {
		s.gate.dieAfter(s.at-before, s.mishap.half)
	}
}

// tell runs the story. When all nodes die, the next cluster starts where the previous one
// ended.
func (s *story) tell() {
	defer s.close()
	for _, pass := range []func() bool{s.first, s.second} {
		s.begin()
		if !pass() {
			s.dead = true
			s.One("died")
			s.waits.Wait()
			s.inspect(s.r)
			s.begin()
			pass()
		}
		s.gate.kill()
		s.waits.Wait()
		s.inspect(s.r)
	}
	if s.fault != nil && len(s.fault.Release(context.Background())) > 0 {
		s.inspect(s.r)
	}
}

// lead makes a node the active leader. nil: all nodes are dead.
func (s *story) lead(mb *member) *leaderTerm {
	s.elect()
	for range 100 {
		ctx, cancel := context.WithTimeout(s.Context(), 10*time.Second)
		if before := s.ops(); s.mishap.leader && !s.dead && s.at >= before {
			mb.gate.dieAfter(s.at-before, s.mishap.half)
		}
		r, err := s.campaign(ctx, mb)
		cancel()
		switch {
		case err == nil:
			return r
		case s.gate.dead():
			return nil
		case mb.gate.dead():
			s.replace(mb)
		}
		time.Sleep(time.Second)
	}
	s.Error("nobody gets to lead")
	return nil
}

// replace restarts a node that has died alone.
func (s *story) replace(mb *member) {
	s.One("leader died")
	s.dead = true
	s.cut(mb)
	s.elect()
	s.rejoin(mb)
}

// settle waits until everything is flushed. If the leader has died, the next one continues.
// nil: all nodes are dead.
func (s *story) settle(r *leaderTerm) *leaderTerm {
	if r == nil {
		return nil
	}
	for range 3 {
		lsn := s.frozen(r.mb).LSN()
		ctx, cancel := context.WithTimeout(s.Context(), 3*time.Minute)
		all, own := s.gate.died, r.mb.gate.died // a node that returns gets another gate
		go func() {
			select {
			case <-all:
			case <-own:
			case <-ctx.Done():
			}
			cancel()
		}()
		err := r.WaitFlushed(ctx, lsn)
		cancel()
		switch {
		case err == nil:
			s.confirm(lsn)
			return r
		case s.gate.dead():
			r.stop(false)
			return nil
		case r.mb.gate.dead():
			r.stop(false)
			s.replace(r.mb)
			r = s.lead(s.other(r.mb))
			if r == nil {
				return nil
			}
		default:
			s.Errorf("%s does not get flushed, 3 minutes long: %v; %s", lsn, err, r.Failing())
			r.stop(false)
			return nil
		}
	}
	s.Error("the leaders die one after the other")
	return nil
}

func (s *story) other(mb *member) *member {
	i := slices.Index(s.members, mb)
	return s.members[(i+1)%len(s.members)]
}

// do commits mutations one by one, and waits until all of them are flushed.
func (s *story) do(r *leaderTerm, muts ...*fsmpb.Mutation) *leaderTerm {
	if r == nil {
		return nil
	}
	for _, mut := range muts {
		s.commit(mut)
		r.Changed()
	}
	return s.settle(r)
}

// jobs returns n mutations that enqueue jobs of that size.
func (s *story) jobs(n, size int) (muts []*fsmpb.Mutation) {
	for range n {
		job := &fsmpb.NewJob{Id: s.load.id("j"), Type: "a", Payload: noise(s.r, size)}
		muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{job}}}})
	}
	return muts
}

// changeAll cancels or deletes up to 1000 jobs.
func changeAll(kind fsm.ChangeKind) *fsmpb.Mutation {
	m := script.ChangeOf(kind)
	m.GetChange().Filter, m.GetChange().Limit = &fsmpb.Filter{}, 1000
	return m
}

// first is a story in which a queue outgrows its document, writes segments, segment indexes
// and checkpoints, catches up with a burst, collects garbage, changes its leader during a
// write of the old one, and shrinks again.
func (s *story) first() (survived bool) {
	r := s.lead(s.members[0])
	r = s.do(r, s.jobs(2, 300)...)
	for range 8 {
		r = s.do(r, s.jobs(2, 900)...)
	}
	r = s.do(r, s.jobs(30, 500)...)
	s.collectNow(r)
	for range 4 {
		r = s.do(r, s.jobs(1, 1200)...)
	}
	r = s.supersede(r)
	r = s.do(r, changeAll(fsm.CancelJobs), changeAll(fsm.DeleteJobs))
	r = s.do(r, s.jobs(2, 100)...)
	s.collectNow(r)
	return s.leave(r)
}

// second is a story in which a cluster with empty disks takes the document over.
func (s *story) second() (survived bool) {
	r := s.lead(s.members[0])
	for range 6 {
		r = s.do(r, s.jobs(4, 900)...)
	}
	s.collectNow(r)
	return s.leave(r)
}

func (s *story) collectNow(r *leaderTerm) {
	if r != nil {
		_ = r.collect(s.Context()) // a later collection does the rest
	}
}

// leave ends a leader term in order.
func (s *story) leave(r *leaderTerm) bool {
	if r == nil {
		return false
	}
	s.commit(s.jobs(1, 50)...)
	r.stop(true)
	return !s.gate.dead()
}

// supersede makes another node the leader while the old one is stalled with a write of the
// document in progress. The write arrives later, and so does a collection of the old
// leader.
func (s *story) supersede(old *leaderTerm) *leaderTerm {
	if old == nil {
		return nil
	}
	seen, err := election.Read(s.Context(), s.store, docKey)
	if err != nil {
		s.Fatal(err)
	}
	late := s.ensemble.faults.Inject(fault.Rule{
		Kind: fault.Stall, KeyPrefix: docKey, Ops: []storage.Op{storage.OpPutIfMatch}, Times: 1,
	})
	s.commit(s.jobs(1, 700)...)
	old.Changed()
	time.Sleep(200 * time.Millisecond)
	s.cut(old.mb)
	r := s.lead(s.other(old.mb))
	r = s.do(r, s.jobs(2, 1200)...)
	late.Release(s.Context())
	n, _ := archive.Collect(s.Context(), old.mb.gate, seen.Doc, time.Now(), 1000, nil)
	s.Add("collected late", n)
	old.Changed()
	time.Sleep(time.Second)
	old.stop(false)
	s.rejoin(old.mb)
	s.collectNow(r)
	return s.settle(r)
}
