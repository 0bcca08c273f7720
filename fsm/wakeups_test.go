package fsm_test

import (
	"testing"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// crew counts the workers of one type by the state of their claims in the API: asleep
// until Wakeups names the type; awake, with a claim in one of the next entries; working,
// after which they claim again before they sleep.
type crew struct {
	asleep, awake, working int
}

// crewSize is the number of workers of each type.
const crewSize = 3

// TestNoClaimSleepsOn: while a job can be claimed and a worker for its type is asleep,
// another worker for it is awake.
func TestNoClaimSleepsOn(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		m, w, l := fsm.New(), &workload{now: 1_000_000}, &log{term: 1}
		crews := map[string]*crew{}
		for _, typ := range jobTypes[1:] {
			crews[typ] = &crew{asleep: crewSize}
		}
		apply := func(t *rapid.T, b *fsmpb.Batch) {
			l.next(t)
			first := len(b.Mutations)
			for _, typ := range jobTypes[1:] {
				b.Mutations = append(b.Mutations, crews[typ].claims(t, typ)...)
			}
			t.Logf("entry %v", b)
			results := m.Apply(l.index, l.term, decode(t, entry(t, b)))
			w.learn(b, results)
			for i, mut := range b.Mutations[first:] {
				crews[mut.GetClaim().Types[0]].answered(len(results[first+i].Jobs))
			}
			m.Wakeups(func(typ string, n int) {
				if c := crews[typ]; c != nil {
					c.wake(n)
				}
			})
			for typ, c := range crews {
				if m.Ready([]string{typ}) && c.awake == 0 && c.asleep > 0 {
					t.Fatalf("a job of type %q can be claimed, but nobody is awake: %+v\n%+v\n%+v", typ, *c, m.View().Queue(typ), eventsOf(m))
				}
			}
		}
		apply(t, &fsmpb.Batch{NowMs: w.now, Mutations: tightRates(t)})
		t.Repeat(map[string]func(*rapid.T){
			"entry":    func(t *rapid.T) { apply(t, w.batch(t)) },
			"entry2":   func(t *rapid.T) { apply(t, w.batch(t)) },
			"takeover": func(t *rapid.T) { apply(t, w.takeover(t)) },
			"nothing":  func(t *rapid.T) { w.now = w.step(t); apply(t, &fsmpb.Batch{NowMs: w.now}) },
			"deadline": func(t *rapid.T) {
				if at, ok := m.NextDeadline(nil); ok && at < sum(m.Now(), 1000) {
					w.now = max(w.now, at)
					apply(t, &fsmpb.Batch{NowMs: w.now})
				}
			},
		})
	})
}

// tightRates are rates, and rules of limits, that a few claims use up and a few steps of the
// clock bring back.
func tightRates(t *rapid.T) (muts []*fsmpb.Mutation) {
	for _, typ := range jobTypes[1:] {
		rate, burst := pick(t, []int64{0, 20_000, 60_000}, "rate"), rapid.Int64Range(1, 4).Draw(t, "burst")
		muts = append(muts, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: &fsmpb.SetQueue{
			Name: typ, RateMilli: &rate, Burst: &burst,
		}}})
	}
	return append(muts, setLimit("*", &fsmpb.LimitRule{Running: 1}), setLimit("ab", &fsmpb.LimitRule{RateMilli: 60_000}), setLimit("t1\x00*", &fsmpb.LimitRule{Running: 2, RateMilli: 30_000}))
}

// claims returns the claims of the next entry. Some of the working workers finish before
// it.
func (c *crew) claims(t *rapid.T, typ string) (muts []*fsmpb.Mutation) {
	for range c.working {
		if once(t, 3, "done") {
			c.working--
			c.awake++
		}
	}
	for range c.awake {
		if !once(t, 3, "on its way") {
			muts = append(muts, claim("crew", 1, typ))
		}
	}
	return muts
}

func (c *crew) answered(jobs int) {
	c.awake--
	if jobs > 0 {
		c.working++
	} else {
		c.asleep++
	}
}

func (c *crew) wake(n int) {
	n = min(n, c.asleep)
	c.asleep -= n
	c.awake += n
}
