package flush

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
)

// lossesEnv is the number of total losses; the default takes some seconds. seedEnv repeats
// one chain of losses.
const (
	lossesEnv = "OSQUEUE_LOSSES"
	seedEnv   = "OSQUEUE_SEED"
)

// chainLength is the number of clusters that continue one after the other, each from the
// bucket of the previous one.
const chainLength = 10

// TestLossOfEverything makes clusters lose all their nodes and disks at some moment, while
// they use a bucket that loses, delays and refuses writes. The document is then the state
// at its LSN, it has all confirmed entries, nothing is damaged, and the next cluster
// continues from there.
func TestLossOfEverything(t *testing.T) {
	losses := 200
	if testing.Short() {
		losses = 80 // with fewer, rare events may not occur
	}
	if n, err := strconv.Atoi(os.Getenv(lossesEnv)); err == nil {
		losses = n
	}
	first, last := uint64(1), uint64(losses/chainLength)
	if seed, err := strconv.ParseUint(os.Getenv(seedEnv), 10, 64); err == nil {
		first, last = seed, seed
	}
	c := storagetest.NewCounts()
	t.Run("chains", func(t *testing.T) { // returns when all chains have ended
		for seed := first; seed <= last; seed++ {
			t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
				t.Parallel()
				synctest.Test(t, func(t *testing.T) { chainOfLosses(t, c, seed) })
			})
		}
	})
	if t.Failed() || first == last {
		return
	}
	c.Demand(t, "loss", "loss in the middle of an operation", "confirmed", "leaderTerm", "fenced", "leader died", "final flush", "restart",
		"stalled", "adoption", "carried over", "jobs", "no jobs", "jobs leave", "jobs return", "young", "segment",
		"segment index", "checkpoint", "checkpoint over a gap", "step of a backlog", "draft failed", "collected", "deleted",
		"collected by a stalled leader", "cluster awake again", "delivered late", "restored")
}

func chainOfLosses(t *testing.T, c *storagetest.Counts, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 7))
	w := newWorld(t, c)
	w.sample = 5
	defer w.close()
	var late []*fault.Injection
	var asleep *life
	for i := range chainLength {
		l := newLife(newEnsemble(w, simConfig(), fmt.Sprint("C", i), r))
		l.before = asleep
		asleep = l.run()
		late = append(late, l.late...)
		w.inspect(r)
		if r.IntN(2) == 0 {
			late = deliver(w, late)
			w.inspect(r)
		}
		if t.Failed() {
			t.Logf("in the life of cluster %d; repeat with %s=%d", i, seedEnv, seed)
			break
		}
	}
	if asleep != nil {
		asleep.end()
	}
}

// deliver releases delayed writes of any cluster.
func deliver(w *world, late []*fault.Injection) []*fault.Injection {
	for _, i := range late {
		w.Add("delivered late", len(i.Release(context.Background())))
	}
	return nil
}

// life is the course of events of one cluster.
type life struct {
	*ensemble
	leader  *leaderTerm // nil: none at the moment
	stalled []*leaderTerm
	late    []*fault.Injection
	before  *life // another cluster, which uses this bucket as its own and is paused
}

func newLife(c *ensemble) *life {
	l := &life{ensemble: c}
	if c.r.IntN(3) > 0 {
		l.trouble()
	}
	if c.r.IntN(3) > 0 {
		c.gate.dieAfter(c.r.IntN(250), c.r.IntN(2) == 0)
	}
	return l
}

// trouble makes the bucket lose, delay and refuse writes.
func (l *life) trouble() {
	p := 0.02 + 0.15*l.r.Float64()
	for _, rule := range []fault.Rule{
		{Kind: fault.LoseAnswer, Probability: p},
		{Kind: fault.LoseRequest, Probability: p},
		{Kind: fault.Throttle, Probability: p / 2},
		{Kind: fault.Reject, Probability: p / 4},
		{Kind: fault.Slow, Probability: 0.3, Delay: 60 * time.Millisecond},
		{Kind: fault.DeliverLate, Probability: p / 2, Delay: time.Duration(l.r.IntN(8000)) * time.Millisecond},
		{Kind: fault.Slow, Probability: p / 8, Delay: 12 * time.Second},
	} {
		l.faults.Inject(rule)
	}
	l.late = append(l.late, l.faults.Inject(fault.Rule{Kind: fault.DeliverLate, Probability: p / 2}))
}

// run ends with the death of all nodes; or all nodes pause, and it returns the life that
// continues later.
func (l *life) run() (asleep *life) {
	for range 5 + l.r.IntN(45) {
		select {
		case <-l.gate.died:
			l.One("loss in the middle of an operation")
			l.end()
			return nil
		default:
			l.step()
		}
	}
	if l.leader != nil && l.r.IntN(2) == 0 {
		l.gate.pause()
		l.meet()
		return l
	}
	l.end()
	return nil
}

// meet resumes the paused cluster. Its leader does not know that another cluster has taken
// over; its nodes die after it has found out.
func (l *life) meet() {
	b := l.before
	if b == nil {
		return
	}
	l.One("cluster awake again")
	l.before = nil
	b.gate.resume()
	b.leader.change(3)
	l.pass(4 * time.Second)
	b.end()
}

func (l *life) end() {
	l.meet()
	l.One("loss")
	l.gate.kill()
	for _, r := range l.leaderTerms() {
		r.cancel() // at once: there is no time to finish
	}
	for _, r := range l.leaderTerms() {
		r.stop(false)
	}
	l.waits.Wait()
}

func (l *life) leaderTerms() []*leaderTerm {
	if l.leader == nil {
		return l.stalled
	}
	return append([]*leaderTerm{l.leader}, l.stalled...)
}

func (l *life) step() {
	if l.leader != nil {
		select {
		case <-l.leader.ended: // fenced: the other leader is dead
			l.leader.stop(false)
			l.leader = nil
		case <-l.leader.mb.gate.died:
			l.lose()
		default:
		}
	}
	if l.leader == nil {
		l.stand()
		return
	}
	switch n := l.r.IntN(24); {
	case n < 14:
		l.leader.change(1 + l.r.IntN(5))
		l.pass(150 * time.Millisecond)
	case n < 16:
		l.leader.change(20 + l.r.IntN(40))
	case n == 16:
		l.collect()
	case n == 17:
		l.meet()
	case n == 18:
		l.outage()
	case n == 19:
		time.Sleep(4 * time.Second)
	case n == 20:
		l.restart()
	case n == 21:
		l.wakeUp()
	case n == 22:
		l.leader.mb.gate.dieAfter(l.r.IntN(20), l.r.IntN(2) == 0)
	default:
		l.succeed()
	}
}

// lose ends a leader that has died alone, and lets another node lead. The old one returns
// later.
func (l *life) lose() {
	l.One("leader died")
	old := l.leader
	l.leader = nil
	l.cut(old.mb)
	old.stop(false)
	l.stand()
	l.rejoin(old.mb)
}

// pass lets up to that much time pass.
func (l *life) pass(most time.Duration) { time.Sleep(time.Duration(l.r.Int64N(int64(most)))) }

// stand makes an up-to-date node campaign.
func (l *life) stand() {
	var able []*member
	for _, mb := range l.members {
		if mb.cutOff == nil {
			able = append(able, mb)
		}
	}
	l.elect()
	ctx, cancel := context.WithTimeout(l.Context(), 10*time.Second)
	defer cancel()
	var err error
	if l.leader, err = l.campaign(ctx, able[l.r.IntN(len(able))]); err != nil {
		l.leader = nil
		l.pass(3 * time.Second)
	}
}

// succeed makes another node lead. The old leader stops in order or at once, or stalls with
// all its operations in progress and without knowledge of the change.
func (l *life) succeed() {
	old := l.leader
	l.leader = nil
	if len(l.stalled) > 0 || l.r.IntN(2) == 0 {
		old.stop(l.r.IntN(3) > 0)
	} else {
		l.One("stalled")
		l.cut(old.mb)
		l.stalled = append(l.stalled, old)
		if l.r.IntN(2) == 0 {
			l.collectAs(old) // it is replaced during the collection
		}
	}
	l.stand()
}

// wakeUp ends the stall of a former leader.
func (l *life) wakeUp() {
	if len(l.stalled) == 0 {
		return
	}
	old := l.stalled[0]
	l.stalled = l.stalled[1:]
	old.Changed()
	l.pass(100 * time.Millisecond)
	old.stop(false)
	l.rejoin(old.mb)
}

// restart cuts a follower off for a while, or makes it lose its memory.
func (l *life) restart() {
	for _, mb := range l.members {
		if mb.cutOff == nil && mb != l.leader.mb {
			l.cut(mb)
			l.leader.change(5)
			l.rejoin(mb)
			return
		}
	}
}

// collect removes garbage, from the view of the leader or of a former one.
func (l *life) collect() {
	r := l.leader
	if len(l.stalled) > 0 && l.r.IntN(4) > 0 {
		r = l.stalled[0]
	}
	done := l.collectAs(r)
	if l.r.IntN(2) == 0 {
		<-done
	}
}

// collectAs starts a collection by a leader, current or former.
func (l *life) collectAs(r *leaderTerm) (done chan struct{}) {
	if r != l.leader {
		l.One("collected by a stalled leader")
	}
	done = make(chan struct{})
	l.waits.Go(func() {
		_ = r.collect(l.Context()) // the bucket may fail
		close(done)
	})
	return done
}

// outage makes the bucket unavailable while the queue keeps working.
func (l *life) outage() {
	l.One("outage")
	i := l.faults.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: []storage.Op{storage.OpPutIfAbsent, storage.OpPutIfMatch, storage.OpGet}})
	for range 1 + l.r.IntN(12) {
		l.leader.change(1 + l.r.IntN(8))
		l.pass(3 * time.Second)
	}
	i.Stop()
	l.pass(6 * time.Second)
}
