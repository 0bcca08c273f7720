package inbox

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"osqueue/fsm"
	"osqueue/storage"
)

// stepResult is the outcome of one step of a leader: one request to the bucket, one proposal, or
// one wait for a flush.
type stepResult int

const (
	well  stepResult = iota
	fails            // it has no effect, and returns an error
	lost             // it takes effect, and returns an error
	dies             // the leader dies before it
	ends             // it takes effect, and the leader dies
	halts            // it waits until it is released, and then takes effect
)

var errInjected = errors.New("injected")

// steps decides the stepResult of every step of one leader.
type steps struct {
	decide  func(n int) stepResult
	kill    context.CancelFunc
	release chan struct{}
	n       atomic.Int64
}

// step runs one step.
func (s *steps) step(ctx context.Context, do func() error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	switch s.decide(int(s.n.Add(1))) {
	case fails:
		return errInjected
	case lost:
		return errors.Join(errInjected, do())
	case dies:
		s.kill()
		return ctx.Err()
	case ends:
		_ = do()
		s.kill()
		return ctx.Err()
	case halts:
		<-s.release
	}
	return do()
}

// shaky is a bucket on which every request is a step.
type shaky struct {
	*steps
	inner storage.Bucket
}

func (b *shaky) Get(ctx context.Context, key string) (o storage.Object, err error) {
	err = b.step(ctx, func() error {
		o, err = b.inner.Get(ctx, key)
		return err
	})
	return o, err
}

func (b *shaky) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	var w storage.Write
	if err := b.step(ctx, func() error {
		w = b.inner.PutIfAbsent(ctx, key, data)
		return nil
	}); err != nil {
		return storage.Write{Err: err}
	}
	return w
}

func (b *shaky) PutIfMatch(context.Context, string, []byte, storage.Version) storage.Write {
	panic("the inbox replaces nothing")
}

func (b *shaky) List(ctx context.Context, prefix string, fn func(storage.Info) bool) error {
	return b.step(ctx, func() error { return b.inner.List(ctx, prefix, fn) })
}

func (b *shaky) Delete(ctx context.Context, key string) error {
	return b.step(ctx, func() error { return b.inner.Delete(ctx, key) })
}

func (b *shaky) Close() error { return nil }

// shakyBox returns a box of the leader whose every step is decided by s.
func (l *leader) shakyBox(s *steps) testBox {
	b := l.box()
	b.cfg.Bucket = &shaky{steps: s, inner: b.cfg.Bucket}
	b.queue = &shakyQueue{steps: s, leader: l}
	return b
}

// shakyQueue is a queue on which every proposal and every wait is a step.
type shakyQueue struct {
	*steps
	*leader
}

func (q *shakyQueue) Enqueue(ctx context.Context, files []File) (answers []Answer, lsn fsm.LSN, err error) {
	err = q.step(ctx, func() error {
		answers, lsn, err = q.leader.Enqueue(ctx, files)
		return err
	})
	return answers, lsn, err
}

func (q *shakyQueue) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	return q.step(ctx, func() error { return q.leader.WaitFlushed(ctx, lsn) })
}

// leadUntil runs a leader with these steps for a time, or until it dies. It returns the
// number of its steps.
func (w *world) leadUntil(d time.Duration, s *steps) int {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	s.kill = cancel
	w.leader().shakyBox(s).Run(ctx)
	return int(s.n.Load())
}

// mixed returns a world with files of every kind in the inbox.
func mixed(t *testing.T) *world {
	w := newWorld(t)
	w.drop("a", "b", "c")
	w.put("bad.json", "{")
	w.put("worse.json", "[")
	w.rejected("worse.json", "another one")
	m, _ := parse("used", []byte(`{"type":"t"}`))
	w.do(m)
	w.flush()
	w.put("used.json", `{"type":"u"}`)
	return w
}

// wantMixed checks the result: every file took effect once.
func (w *world) wantMixed() {
	w.t.Helper()
	w.wantOnce("a", "b", "c")
	w.wantRejected("bad", "{", "JSON")
	w.wantRejected(rejectedStem("worse", []byte("["), true), "[", "JSON")
	w.wantRejected("used", `{"type":"u"}`, "another job")
	if n := len(w.keys(RejectedPrefix)); n != 7 {
		w.t.Errorf("%d names of rejected files", n)
	}
}

// TestCrashAtEachStep makes each step of a leader fail in turn. Then another leader
// finishes, with the log as it is or, if all nodes were lost, with the flushed log.
func TestCrashAtEachStep(t *testing.T) {
	for name, hit := range map[string]stepResult{"fails": fails, "lost": lost, "dies": dies, "ends": ends} {
		for _, all := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, all nodes lost %v", name, all), func(t *testing.T) {
				k, reached := 1, 0
				for ; reached >= k-1; k++ {
					synctest.Test(t, func(t *testing.T) {
						w := mixed(t)
						reached = w.leadUntil(time.Minute, &steps{decide: func(n int) stepResult {
							if n == k {
								return hit
							}
							return well
						}})
						if all {
							w.loseAll()
						}
						run(w.leader().box(), 10*time.Minute)
						w.wantMixed()
					})
					if t.Failed() {
						t.Fatalf("at step %d", k)
					}
				}
				if k < 20 {
					t.Fatalf("%d steps only", k)
				}
			})
		}
	}
}

// TestStalledLeaderAtEachStep stalls a leader at each of its steps in turn, until its
// successor has done everything. Then the leader continues without knowledge of its
// successor.
func TestStalledLeaderAtEachStep(t *testing.T) {
	k, reached := 1, 0
	for ; reached >= k-1; k++ {
		synctest.Test(t, func(t *testing.T) {
			w := mixed(t)
			stalled := &steps{release: make(chan struct{}), decide: func(n int) stepResult {
				if n == k {
					return halts
				}
				return well
			}}
			go func() { reached = w.leadUntil(time.Hour, stalled) }()
			synctest.Wait()
			run(w.leader().box(), time.Minute)
			if k <= int(stalled.n.Load()) {
				w.wantMixed()
			}
			w.drop("new")
			close(stalled.release)
			time.Sleep(2 * time.Hour)
			run(w.leader().box(), time.Minute)
			w.wantMixed()
			w.wantOnce("new")
		})
		if t.Failed() {
			t.Fatalf("at step %d", k)
		}
	}
	if k < 20 {
		t.Fatalf("%d steps only", k)
	}
}

// TestLateRemoval checks that a late removal finds a repetition, which adds nothing in any
// case.
func TestLateRemoval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		w.drop("a")
		const removal = 5 // after the listing, the read, the proposal and the flush
		s := &steps{release: make(chan struct{}), decide: func(n int) stepResult {
			if n == removal {
				return halts
			}
			return well
		}}
		go w.leadUntil(time.Minute, s)
		synctest.Wait()
		if n := s.n.Load(); n != removal {
			t.Errorf("stands at step %d", n)
		}
		run(w.leader().box(), time.Second)
		w.wantOnce("a")
		w.drop("a")
		close(s.release)
		time.Sleep(time.Hour)
		run(w.leader().box(), time.Second)
		w.wantOnce("a")
	})
}

// TestRandomTrouble combines everything: leaders that fail, die and stall, lost nodes, and
// files that arrive all the time.
func TestRandomTrouble(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		seed := rapid.Uint64().Draw(rt, "seed")
		leaderTerms := rapid.IntRange(1, 8).Draw(rt, "leaderTerms")
		trouble := rapid.IntRange(1, 30).Draw(rt, "percent")
		synctest.Test(t, func(t *testing.T) { randomTrouble(t, seed, leaderTerms, trouble) })
		if t.Failed() {
			rt.Fatalf("seed %d, %d leaderTerms, %d %%", seed, leaderTerms, trouble)
		}
	})
}

func randomTrouble(t *testing.T, seed uint64, leaderTerms, percent int) {
	random := rand.New(rand.NewPCG(seed, 0))
	w := newWorld(t)
	var ids []string
	for i := range leaderTerms {
		for k := range 1 + random.IntN(10) {
			id := fmt.Sprintf("%d-%d", i, k)
			if w.put(id+".json", fmt.Sprintf(`{"payload":%d}`, random.IntN(3))); random.IntN(5) > 0 {
				ids = append(ids, id)
				continue
			}
			w.put("bad"+id+".json", "[")
			ids = append(ids, id)
		}
		rng := rand.New(rand.NewPCG(random.Uint64(), 0))
		stepResults := make([]stepResult, 1000)
		for n := range stepResults {
			if rng.IntN(100) < percent {
				stepResults[n] = stepResult(1 + rng.IntN(4))
			}
		}
		w.leadUntil(time.Duration(1+random.IntN(60))*time.Second, &steps{decide: func(n int) stepResult { return stepResults[n%len(stepResults)] }})
		if random.IntN(3) == 0 {
			w.loseAll()
		}
	}
	run(w.leader().box(), time.Hour)
	w.wantOnce(ids...)
	bad := slices.DeleteFunc(w.keys(RejectedPrefix), func(key string) bool { return w.read(key) == "[" })
	if 2*len(bad) != len(w.keys(RejectedPrefix)) {
		t.Errorf("rejected: %v", w.keys(RejectedPrefix))
	}
}
