package election_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/storagetest/fault"
)

// ensemble replaces raft: it has one log for its nodes, with one leader at a time that
// may append to it. A deposed node keeps the state that it had seen.
type ensemble struct {
	name  string
	world *world

	mu     sync.Mutex
	m      *fsm.Machine
	term   uint64
	leader int
	jobs   int
	asleep time.Time // until when all of its processes stand still
}

// rest lets some time pass for a node; now and then its whole cluster stands
// still, in the middle of whatever it does, until others have taken over.
func (c *ensemble) rest(r *rand.Rand, most time.Duration) {
	time.Sleep(time.Duration(r.Int64N(int64(most))))
	c.mu.Lock()
	if r.IntN(60) == 0 {
		c.asleep = time.Now().Add(30 * time.Second)
	}
	until := c.asleep
	c.mu.Unlock()
	time.Sleep(time.Until(until))
}

// place is a state's in the histories. Two clusters that adopt the same document
// at once both go on from it, and only one of them gets its state into the
// document.
type place struct {
	cluster string
	lsn     fsm.LSN
}

func placeOf(m *fsm.Meta) place { return place{m.Cluster, m.LSN()} }

// world is shared by all ensembles, and has the records of their checks.
type world struct {
	*env
	lock chan struct{} // guards what follows

	states  map[place][sha256.Size]byte
	flushed map[string]bool // jobs in states that a Write has reported as stored

	terms, fencings, adoptions, carried int
}

func (w *world) locked(f func()) {
	w.lock <- struct{}{}
	f()
	<-w.lock
}

// noteLocked remembers the state.
func (c *ensemble) noteLocked() *fsm.View {
	v := c.m.View()
	c.world.locked(func() { c.world.states[placeOf(v.Meta())] = v.Hash() })
	return v
}

// lead makes node i the leader of a new term.
func (c *ensemble) lead(i int) (me election.Candidate, v *fsm.View) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.term++
	c.leader = i
	v = c.noteLocked()
	m := v.Meta()
	name := fmt.Sprintf("%s%d", c.name, i)
	return election.Candidate{
		Node: name, Address: name + ":1", Cluster: c.name, Lineage: m.Lineage, Epoch: m.Epoch,
		LSN:       fsm.LSN{Term: c.term + m.TermBase, Index: m.LSN().Index},
		Applied:   m.LSN(),
		Populated: m.Lineage != "" || v.Counts() != fsm.Counts{},
	}, v
}

// adopt replaces the state, if node i still leads.
func (c *ensemble) adopt(i int, seen election.Observed, me *election.Candidate) (*fsm.View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader != i {
		return nil, false
	}
	n := &node{Machine: c.m, Candidate: *me, term: c.term}
	c.m = adopt(c.world, n, c.world.state(seen.Doc))
	v := c.noteLocked()
	c.world.locked(func() { c.world.adoptions++ })
	me.Adopted, me.Populated, me.Lineage, me.Epoch = seen.Version, true, v.Meta().Lineage, v.Meta().Epoch
	me.LSN = fsm.LSN{Term: c.term + v.Meta().TermBase, Index: v.LSN().Index}
	me.Applied = v.LSN()
	return v, true
}

// append applies a mutation, if node i still leads.
func (c *ensemble) append(i int, mut *fsmpb.Mutation) (*fsm.View, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.leader != i {
		return nil, false
	}
	c.m.Apply(c.m.LSN().Index+1, c.term, &fsmpb.Batch{NowMs: time.Now().UnixMilli(), Mutations: []*fsmpb.Mutation{mut}})
	return c.noteLocked(), true
}

func (c *ensemble) newJob() *fsmpb.Mutation {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.jobs++
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{
		Jobs: []*fsmpb.NewJob{{Id: fmt.Sprintf("%s-%d", c.name, c.jobs)}},
	}}}
}

// campaign takes node i to a fence in the way of the cluster.
func (c *ensemble) campaign(ctx context.Context, i int) (*election.Fence, *fsm.View) {
	me, v := c.lead(i)
	for range 4 {
		seen, err := election.Read(ctx, c.world, key)
		if err != nil {
			return nil, nil
		}
		switch d := election.Decide(seen, me, heard(seen.Doc, time.Now().UnixMilli())); d.Action {
		case election.Create, election.TakeOver:
			content := c.world.content(v)
			if seen.Doc != nil && !seen.Doc.Viewed { // carried over as it is, to catch up later
				content = carried(seen.Doc)
				c.world.locked(func() { c.world.carried++ })
			}
			f, err := election.Acquire(ctx, c.world, key, seen, me, content, time.Now().UnixMilli())
			if err != nil {
				return nil, nil
			}
			return f, v
		case election.Adopt:
			var ok bool
			if v, ok = c.adopt(i, seen, &me); !ok {
				return nil, nil
			}
		case election.Refuse:
			c.world.Errorf("%s refuses: %s", me.Node, d.Reason)
			return nil, nil
		default:
			return nil, nil
		}
	}
	return nil, nil
}

// flushUntilLost flushes until the document is lost, or for long enough. A node that is
// deposed continues with the state that it has, like a leader that does not know it yet.
func (c *ensemble) flushUntilLost(ctx context.Context, i int, f *election.Fence, v *fsm.View, r *rand.Rand) {
	register := &fsmpb.Mutation{Op: &fsmpb.Mutation_RegisterBroker{RegisterBroker: &fsmpb.RegisterBroker{
		Node: fmt.Sprintf("%s%d", c.name, i), Address: fmt.Sprintf("%s%d:1", c.name, i),
		Cluster: c.name, Epoch: f.Epoch(), Lineage: f.Lineage(),
	}}}
	if w, ok := c.append(i, register); ok {
		v = w
	}
	for range 5 + r.IntN(20) {
		if w, ok := c.append(i, c.newJob()); ok {
			v = w
		}
		short, cancel := context.WithTimeout(ctx, time.Duration(r.IntN(3000))*time.Millisecond)
		content := c.world.content(v)
		if r.IntN(2) == 0 {
			content = c.world.archive(v)
		}
		err := f.Write(short, content, time.Now().UnixMilli())
		cancel()
		var fenced *election.FencedError
		switch {
		case err == nil:
			c.world.noteFlushed(v)
		case errors.As(err, &fenced):
			c.world.locked(func() { c.world.fencings++ })
			return
		case !errors.Is(err, election.ErrUnknown):
			c.world.Errorf("%s%d: %v", c.name, i, err)
			return
		}
		c.rest(r, 500*time.Millisecond)
	}
}

func (w *world) noteFlushed(v *fsm.View) {
	w.locked(func() {
		v.Jobs(fsm.Unclaimed, 0, func(j *fsm.Job) bool {
			w.flushed[j.ID] = true
			return true
		})
	})
}

func (c *ensemble) node(ctx context.Context, i int, r *rand.Rand) {
	for ctx.Err() == nil {
		c.rest(r, 8*time.Second)
		if f, v := c.campaign(ctx, i); f != nil {
			c.world.locked(func() { c.world.terms++ })
			c.flushUntilLost(ctx, i, f, v, r)
		}
	}
}

// TestChaos lets two clusters of two nodes fight over one document on a bucket
// that loses, delays and refuses, with leaders that are deposed without knowing.
// Every accepted version must be the state at its LSN, LSN and epoch must not go
// back, and what was once reported as stored must be there in the end.
func TestChaos(t *testing.T) {
	var terms, fencings, adoptions, carried atomic.Int64
	t.Run("worlds", func(t *testing.T) { // ends when all of them have
		for seed := range uint64(8) {
			t.Run(fmt.Sprint(seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) {
					w := newWorld(t, seed)
					w.fight(seed)
					w.check()
					terms.Add(int64(w.terms))
					fencings.Add(int64(w.fencings))
					adoptions.Add(int64(w.adoptions))
					carried.Add(int64(w.carried))
				})
			})
		}
	})
	t.Logf("%d terms, %d of them ended by a fence, %d adoptions, %d archives carried over",
		terms.Load(), fencings.Load(), adoptions.Load(), carried.Load())
	if terms.Load() < 100 || fencings.Load() < 20 || adoptions.Load() < 5 || carried.Load() < 20 {
		t.Error("too little happened")
	}
}

func newWorld(t *testing.T, seed uint64) *world {
	t.Helper()
	w := &world{
		env: newEnvOn(t, newHashed()), lock: make(chan struct{}, 1),
		states: map[place][sha256.Size]byte{}, flushed: map[string]bool{},
	}
	for _, rule := range []fault.Rule{
		{Kind: fault.LoseAnswer, Ops: puts, Probability: 0.08},
		{Kind: fault.LoseRequest, Probability: 0.08},
		{Kind: fault.DeliverLate, Ops: puts, Probability: 0.1, Delay: time.Duration(1+seed%5) * 300 * time.Millisecond},
		{Kind: fault.Slow, Probability: 0.3, Delay: 70 * time.Millisecond},
		{Kind: fault.Reject, Ops: puts, Probability: 0.02},
		{Kind: fault.Slow, Probability: 0.01, Delay: 15 * time.Second},
	} {
		w.Inject(rule)
	}
	return w
}

func (w *world) fight(seed uint64) {
	ctx, cancel := context.WithTimeout(w.Context(), 3*time.Minute)
	defer cancel()
	var group sync.WaitGroup
	for k, name := range []string{"A", "B"} {
		c := &ensemble{name: name, world: w, m: fsm.New()}
		for i := range 2 {
			r := rand.New(rand.NewPCG(seed, uint64(2*k+i)))
			group.Go(func() { c.node(ctx, i, r) })
		}
	}
	group.Wait()
}

func (w *world) check() {
	w.Helper()
	for _, doc := range w.checkHistory() {
		v := w.state(doc)
		if want, ok := w.states[placeOf(v.Meta())]; !ok || v.LSN() != doc.LSN() || v.Hash() != want {
			w.Fatalf("write %s is not the state at %s", doc.Header.Write, doc.Header.LSN())
		}
	}
	last := make(map[string]bool)
	w.state(w.doc()).List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress}, 0, func(j *fsm.Job) bool {
		last[j.ID] = true
		return true
	})
	for id := range w.flushed {
		if !last[id] {
			w.Fatalf("job %s was stored and is gone", id)
		}
	}
}
