package leader

import (
	"context"
	"errors"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/groupcommit"
)

// heldDocument is a document that this leader has written just now.
type heldDocument struct{ flush.Document }

func (heldDocument) Flushed() fsm.LSN            { return fsm.LSN{} }
func (heldDocument) Acquired() (time.Time, bool) { return time.Now(), false }
func (heldDocument) OnFailure(func(error))       {}

type anyDraft = flush.Draft

type noDraft struct{ anyDraft }

func (noDraft) Notify(func()) {}

// Clients have filled both buffers. The proposals of the leader itself are taken, and are in the
// next entry.
func TestOwnProposalsPassAnOverload(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.term.clock = newLeaderClock(func() time.Time { return time.UnixMilli(b.now) }, b.now, math.MaxInt64)
		b.term.cfg.MaxPendingItems, b.term.cfg.MaxInFlight, b.term.cfg.MaxEntryBytes = 2, 1, 100
		next := make(chan struct{})
		var entries []*fsmpb.Batch
		b.term.flusher = flush.New(flush.Config{}, heldDocument{}, noDraft{}, flush.Effects{}, nil)
		b.term.do.Waiting = func() int { return 0 }
		b.term.do.Apply = func(data []byte) func(context.Context) ([]fsm.Result, fsm.LSN, error) {
			e, err := fsm.DecodeEntry(data)
			if err != nil {
				t.Error(err)
			}
			entries = append(entries, e)
			return func(context.Context) ([]fsm.Result, fsm.LSN, error) {
				<-next
				return make([]fsm.Result, len(e.Mutations)), fsm.LSN{}, nil
			}
		}
		p := b.term.newProposer()
		enqueue := proposal{{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "a", Type: "t", Payload: make([]byte, 200)}}}}}}
		report := proposal{{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Lease: &fsmpb.Lease{JobId: "a", Token: 1}, Result: make([]byte, 200)}}}}
		for range 5 { // the first one is under way
			go func() { _, _ = p.Do(t.Context(), request{ms: enqueue}) }()
			synctest.Wait()
			go func() { _, _ = p.Do(t.Context(), request{ms: report}) }()
			synctest.Wait()
		}
		if _, err := p.Do(t.Context(), request{ms: report}); !errors.Is(err, groupcommit.ErrOverloaded) {
			t.Fatalf("a report beyond the bound: %v", err)
		}
		for name, do := range map[string]request{
			"time":  own(nil),
			"fire":  own(proposal{{Op: &fsmpb.Mutation_FireCron{FireCron: &fsmpb.FireCron{Name: "c", DueMs: 1, JobId: "j"}}}}),
			"alert": {ms: proposal{{Op: &fsmpb.Mutation_SetAlert{SetAlert: &fsmpb.SetAlert{Hook: "h", Kind: 13, Subject: "t"}}}}},
			"level": own(proposal{raiseLevel(fsm.MaxLevel)}),
		} {
			go func() {
				if _, err := p.Do(t.Context(), do); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}()
			synctest.Wait()
		}
		next <- struct{}{}
		synctest.Wait()
		if n := len(entries); n != 2 || len(entries[1].Mutations) < 3 || entries[1].Mutations[0].GetEnqueue() != nil || entries[1].Mutations[0].GetComplete() != nil {
			t.Errorf("%d entries; the second one is %v", n, entries[n-1])
		}
		close(next)
		synctest.Wait()
		p.Close()
	})
}

// A term that raft has ended answers nothing more, even while its goroutines still end.
func TestATermThatIsOverIsNotActive(t *testing.T) {
	const own = 3
	now, leads := uint64(own), true
	l := New(Config{}, Effects{Term: func() uint64 { return now }, Leads: func() bool { return leads }})
	l.current.Store(&Term{term: own})
	if l.Active() == nil {
		t.Fatal("it is not active before")
	}
	if now = own + 1; l.Active() != nil {
		t.Error("it is active in another term of raft")
	}
	if now, leads = own, false; l.Active() != nil {
		t.Error("it is active without the leadership")
	}
}
