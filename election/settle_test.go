package election_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/storagetest/fault"
	"osqueue/storage"
	"osqueue/storage/mem"
)

var puts = []storage.Op{storage.OpPutIfAbsent, storage.OpPutIfMatch}

// onStores runs a scenario, in its own time, on a store whose versions never
// repeat and on one that names them by content, with each form of documents.
func onStores(t *testing.T, scenario func(t *testing.T, s *scene)) {
	t.Helper()
	for name, store := range map[string]func() storage.Bucket{
		"counted": func() storage.Bucket { return mem.New() },
		"hashed":  func() storage.Bucket { return newHashed() },
	} {
		for _, bare := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, bare %v", name, bare), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					e := newEnvOn(t, store())
					e.bare = bare
					scenario(t, &scene{env: e, hooked: &hooked{Bucket: e}, n: newNode("n1", "A")})
				})
			})
		}
	}
}

// scene is an active leader whose bucket can be interfered with.
type scene struct {
	*env
	hooked *hooked
	n      *node
	f      *election.Fence
}

// begin acquires the document and flushes a job.
func (s *scene) begin() {
	s.Helper()
	var err error
	s.f, err = election.Acquire(s.Context(), s.hooked, key, s.read(), s.n.candidate(), s.content(s.n.View()), start)
	if err != nil {
		s.Fatalf("acquire: %v", err)
	}
	s.n.register(s.f)
	s.write(s.f, s.n.enqueue("a"))
}

// lose makes one write of v whose outcome stays unknown until its time is up.
func (s *scene) lose(v *fsm.View) {
	s.Helper()
	away := s.Inject(fault.Rule{Kind: fault.LoseRequest})
	if err := s.f.Write(short(s), s.content(v), start); !errors.Is(err, election.ErrUnknown) || !errors.Is(err, fault.ErrInjected) {
		s.Fatalf("write without a store: %v", err)
	}
	away.Stop()
}

// succeed lets another node of the cluster take the document over.
func (s *scene) succeed() {
	s.Helper()
	second := newNode("n2", "A")
	second.Machine, second.term = copyOf(s, s.n.Machine), 2
	seen, err := election.Read(s.Context(), s.record, key)
	if err != nil {
		s.Fatalf("read: %v", err)
	}
	if _, err := election.Acquire(s.Context(), s.record, key, seen, second.candidate(), s.content(second.View()), start); err != nil {
		s.Fatalf("acquire: %v", err)
	}
}

func (s *scene) finish(want string) {
	s.Helper()
	if got := s.jobs(); got != want {
		s.Fatalf("jobs %swant %s", got, want)
	}
	s.checkHistory()
}

func TestAnswerLost(t *testing.T) {
	onStores(t, func(_ *testing.T, s *scene) {
		s.begin()
		i := s.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: puts, Times: 1})
		s.write(s.f, s.n.enqueue("b"))
		s.write(s.f, s.n.enqueue("c"))
		if i.Hits() != 1 || len(s.record.History(key)) != 4 {
			s.Fatalf("%d hits, %d versions", i.Hits(), len(s.record.History(key)))
		}
		s.finish("a:unclaimed b:unclaimed c:unclaimed ")
	})
}

// TestRequestLost checks that what is sent again is the same.
func TestRequestLost(t *testing.T) {
	onStores(t, func(_ *testing.T, s *scene) {
		s.begin()
		late := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 3})
		s.write(s.f, s.n.enqueue("b"))
		after := s.stored()
		answers := late.Release(s.Context())
		if len(answers) != 3 || slices.ContainsFunc(answers, func(w storage.Write) bool { return w.Outcome != storage.Conflict }) {
			s.Fatalf("late deliveries ended as %+v", answers)
		}
		if s.stored().Version != after.Version {
			s.Fatal("a late delivery was applied after the repeat")
		}
		s.write(s.f, s.n.enqueue("c"))
		s.finish("a:unclaimed b:unclaimed c:unclaimed ")
	})
}

// TestStoreAway has neither writes nor reads for a while, shorter than the
// context lives.
func TestStoreAway(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		away := s.Inject(fault.Rule{Kind: fault.LoseRequest})
		time.AfterFunc(time.Hour, away.Stop)
		s.write(s.f, s.n.enqueue("b"))
		if away.Hits() < 100 || away.Hits() > 10_000 {
			t.Fatalf("%d attempts in an hour", away.Hits())
		}
		s.finish("a:unclaimed b:unclaimed ")
	})
}

// TestUnknownThenGone gives several writes up. The next one wins; the lost ones
// arrive afterwards and find that they are too late.
func TestUnknownThenGone(t *testing.T) {
	onStores(t, func(_ *testing.T, s *scene) {
		s.begin()
		late := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 3})
		for _, id := range []string{"b", "c", "d"} {
			ctx, cancel := context.WithTimeout(s.Context(), time.Millisecond)
			if err := s.f.Write(ctx, s.content(s.n.enqueue(id)), start); !errors.Is(err, election.ErrUnknown) {
				s.Fatalf("write: %v", err)
			}
			cancel()
		}
		s.write(s.f, s.n.enqueue("e"))
		for _, w := range late.Release(s.Context()) {
			if w.Outcome != storage.Conflict {
				s.Fatalf("a lost write arrived and ended as %+v", w)
			}
		}
		s.write(s.f, s.n.View())
		s.finish("a:unclaimed b:unclaimed c:unclaimed d:unclaimed e:unclaimed ")
	})
}

// TestUnknownRace lets the last of several lost writes arrive while the next
// one is under way, whose own answer is lost too.
func TestUnknownRace(t *testing.T) {
	onStores(t, func(_ *testing.T, s *scene) {
		s.begin()
		first := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 1})
		s.lose(s.n.enqueue("b"))
		second := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 1})
		s.lose(s.n.enqueue("c"))
		third := s.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: puts, Times: 1})
		fourth := s.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: puts, Times: 1})
		s.hooked.beforeGet = func() {
			second.Release(s.Context())
			first.Release(s.Context())
		}
		s.write(s.f, s.n.enqueue("d"))
		if third.Hits() != 1 || fourth.Hits() != 1 || len(s.record.History(key)) != 4 {
			s.Fatalf("%d and %d hits, %d versions", third.Hits(), fourth.Hits(), len(s.record.History(key)))
		}
		s.finish("a:unclaimed b:unclaimed c:unclaimed d:unclaimed ")
	})
}

// TestBufferInFlight gives a write up while the store's client still reads from
// its buffer: the next one must not be encoded into the same memory.
func TestBufferInFlight(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		k := &keeper{Bucket: s.env}
		f, err := election.Acquire(t.Context(), k, key, s.read(), s.n.candidate(), s.content(s.n.View()), start)
		if err != nil {
			t.Fatal(err)
		}
		s.n.register(f)
		k.lose = 1
		for _, id := range []string{"b", "c", "d", "e"} {
			s.write(f, s.n.enqueue(id))
		}
		if len(k.kept) != 1 || string(k.kept[0]) != k.was {
			t.Fatal("the buffer of a write in flight was used again")
		}
	})
}

// keeper is a client that loses a request and keeps reading from its buffer.
type keeper struct {
	storage.Bucket
	lose int
	kept [][]byte
	was  string
}

func (k *keeper) PutIfMatch(ctx context.Context, name string, data []byte, v storage.Version) storage.Write {
	if k.lose > 0 {
		k.lose--
		k.kept, k.was = append(k.kept, data), string(data)
		return storage.Write{Err: context.DeadlineExceeded}
	}
	return k.Bucket.PutIfMatch(ctx, name, data, v)
}

// TestUnknownOlderState refuses a state before one that may still arrive.
func TestUnknownOlderState(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		older := s.n.enqueue("b")
		s.lose(s.n.enqueue("c"))
		if err := s.f.Write(t.Context(), s.content(older), start); !errors.Is(err, election.ErrOlderState) {
			t.Fatalf("write: %v", err)
		}
	})
}

// TestLandedUnderSuccessor loses the answer of a write, and another node takes over before the fence
// looks: the leader is fenced, and the write counts if it was applied.
func TestLandedUnderSuccessor(t *testing.T) {
	for kind, want := range map[fault.Kind]string{fault.LoseAnswer: "a:unclaimed b:unclaimed ", fault.DeliverLate: ""} {
		onStores(t, func(t *testing.T, s *scene) {
			s.begin()
			flushed := s.f.Flushed()
			lost := s.Inject(fault.Rule{Kind: kind, Ops: puts, Times: 1})
			s.hooked.beforeGet = s.succeed
			v := s.n.enqueue("b")
			var fenced *election.FencedError
			if err := s.f.Write(t.Context(), s.content(v), start); !errors.As(err, &fenced) || fenced.Epoch != 2 {
				t.Fatalf("write: %v", err)
			}
			for _, w := range lost.Release(t.Context()) {
				if w.Outcome != storage.Conflict {
					t.Fatalf("the deposed leader's write arrived and ended as %+v", w)
				}
			}
			if want == "" {
				if s.f.Flushed() != flushed {
					t.Fatalf("flushed %s", s.f.Flushed())
				}
				s.checkHistory()
				return
			}
			if s.f.Flushed() != v.LSN() {
				t.Fatalf("flushed %s, want %s", s.f.Flushed(), v.LSN())
			}
			s.finish(want)
		})
	}
}

// TestEditedOverLanded loses the answer of a write that was applied, and another writer
// edits the document before the fence reads it.
func TestEditedOverLanded(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		s.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: puts, Times: 1})
		s.hooked.beforeGet = func() { s.overwrite(append(s.stored().Data, '\n')) }
		v := s.n.enqueue("b")
		var edit *election.ExternalEditError
		if err := s.f.Write(t.Context(), s.content(v), start); !errors.As(err, &edit) || s.f.Flushed() != v.LSN() {
			t.Fatalf("write: %v, flushed %s", err, s.f.Flushed())
		}
		s.f.Rebase(edit.Observed)
		s.write(s.f, s.n.View())
		if got := s.jobs(); got != "a:unclaimed b:unclaimed " {
			t.Fatalf("jobs %s", got)
		}
	})
}

// TestOldVersionComesBack puts an old version back on a store that names
// versions by content, while a lost write waits for just that version: it is
// applied. The fence must not take the result for its newest state.
func TestOldVersionComesBack(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		base := s.stored().Data
		late := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 1})
		s.lose(s.n.enqueue("b"))
		s.write(s.f, s.n.enqueue("c"))
		s.overwrite(base)
		late.Release(t.Context())
		var edit *election.ExternalEditError
		if err := s.f.Write(t.Context(), s.content(s.n.View()), start); !errors.As(err, &edit) {
			t.Fatalf("write: %v", err)
		}
		s.f.Rebase(edit.Observed)
		s.write(s.f, s.n.View())
		if got := s.jobs(); got != "a:unclaimed b:unclaimed c:unclaimed " {
			t.Fatalf("jobs %s", got)
		}
	})
}

// TestThrottled tells a refusal from an unknown outcome.
func TestThrottled(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		s.begin()
		i := s.Inject(fault.Rule{Kind: fault.Throttle, Ops: puts, Times: 1})
		v := s.n.enqueue("b")
		if err := s.f.Write(t.Context(), s.content(v), start); !errors.Is(err, storage.ErrThrottled) || errors.Is(err, election.ErrUnknown) {
			t.Fatalf("write: %v", err)
		}
		s.write(s.f, v)

		// After a lost answer a refusal says nothing about the first attempt.
		s.Inject(fault.Rule{Kind: fault.LoseRequest, Ops: puts, Times: 1})
		s.Inject(fault.Rule{Kind: fault.Throttle, Ops: []storage.Op{storage.OpGet}, Times: 3})
		last := s.Inject(fault.Rule{Kind: fault.Throttle, Ops: puts, Times: 2})
		s.write(s.f, s.n.enqueue("c"))
		if i.Hits() != 1 || last.Hits() != 2 {
			t.Fatal("the faults were not tried")
		}
		s.finish("a:unclaimed b:unclaimed c:unclaimed ")
	})
}

// TestAcquireSettles loses requests and answers of the first write of a leader term, on
// an empty bucket and over a predecessor.
func TestAcquireSettles(t *testing.T) {
	for name, rule := range map[string]fault.Rule{
		"answer lost":    {Kind: fault.LoseAnswer, Times: 1},
		"requests lost":  {Kind: fault.LoseRequest, Times: 5},
		"delivered late": {Kind: fault.DeliverLate, Times: 1, Delay: 15 * time.Millisecond},
		"conflicts":      {Kind: fault.Reject, Times: 2},
	} {
		t.Run(name, func(t *testing.T) {
			onStores(t, func(t *testing.T, s *scene) {
				for term := range uint64(2) {
					seen := s.read()
					i := s.Inject(rule)
					s.n.term = term + 1
					f, err := election.Acquire(t.Context(), s.env, key, seen, s.n.candidate(), s.content(s.n.View()), start)
					if err != nil || f.Epoch() != term+1 || i.Hits() == 0 {
						t.Fatalf("%v, %+v after %d hits", err, f, i.Hits())
					}
					s.n.register(f)
					s.write(f, s.n.View())
				}
				s.checkHistory()
			})
		})
	}
}

// TestAcquireLoses lets another writer win at each moment.
func TestAcquireLoses(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		acquire := func(seen election.Observed) error {
			_, err := election.Acquire(short(t), s.hooked, key, seen, s.n.candidate(), s.content(s.n.View()), start)
			return err
		}
		rival := newNode("x", "A")
		none := s.read()
		s.acquire(rival)
		if err := acquire(none); !errors.Is(err, election.ErrConflict) {
			t.Fatalf("after a rival created it: %v", err)
		}
		s.n.Machine = rival.Machine
		seen := s.read()
		s.Inject(fault.Rule{Kind: fault.LoseAnswer, Ops: puts, Times: 1})
		s.hooked.beforeGet = func() { s.acquire(rival) }
		if err := acquire(seen); !errors.Is(err, election.ErrConflict) {
			t.Fatalf("won, answer lost, and then taken: %v", err)
		}
		seen = s.read()
		s.hooked.beforePut = func() { s.record.Delete(t.Context(), key) }
		if err := acquire(seen); !errors.Is(err, election.ErrConflict) {
			t.Fatalf("removed: %v", err)
		}
	})
}

// TestAcquireUnknown gives an acquisition up and lets it land: the next one
// finds a document of its own cluster.
func TestAcquireUnknown(t *testing.T) {
	onStores(t, func(t *testing.T, s *scene) {
		late := s.Inject(fault.Rule{Kind: fault.DeliverLate, Ops: puts, Times: 1})
		away := s.Inject(fault.Rule{Kind: fault.LoseRequest})
		_, err := election.Acquire(short(t), s.env, key, election.Observed{}, s.n.candidate(), s.content(s.n.View()), start)
		if !errors.Is(err, election.ErrUnknown) || !errors.Is(err, fault.ErrInjected) {
			t.Fatalf("acquire: %v", err)
		}
		away.Stop()
		none := s.read()
		late.Release(t.Context())
		_, err = election.Acquire(t.Context(), s.env, key, none, s.n.candidate(), s.content(s.n.View()), start)
		if !errors.Is(err, election.ErrConflict) {
			t.Fatalf("over what had landed: %v", err)
		}
		seen := s.read()
		if d := election.Decide(seen, s.n.candidate(), heard(seen.Doc, start)); d.Action != election.TakeOver {
			t.Fatalf("%+v", d)
		}
		if f := s.acquire(s.n); f.Epoch() != 2 {
			t.Fatalf("epoch %d", f.Epoch())
		}
		s.checkHistory()
	})
}
