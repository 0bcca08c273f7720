package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/groupcommit"
)

func (t *Term) newProposer() *groupcommit.Batcher[request, committed] {
	return groupcommit.New(groupcommit.Config[request, committed]{
		Start:           t.start,
		Size:            request.size,
		Urgent:          request.isReport,
		First:           request.isOwn,
		MaxBytes:        t.cfg.MaxEntryBytes,
		MaxPendingItems: t.cfg.MaxPendingItems,
		MaxPendingBytes: t.cfg.MaxPendingBytes,
		MaxInFlight:     t.cfg.MaxInFlight,
	})
}

// request is a proposal that waits for an entry.
type request struct {
	ms  proposal
	own bool // of the leader itself: no client gets an answer
}

func own(ms proposal) request { return request{ms: ms, own: true} }

func (r request) size() int      { return r.ms.size() }
func (r request) isReport() bool { return r.ms.isReport() }

// isOwn reports whether the leader itself makes the request. Overload by clients neither delays
// nor refuses it. The leader's goroutines, and the sender of hooks, have few at a time.
func (r request) isOwn() bool { return r.own || r.ms.isOfHooks() }

// start hands one log entry to raft. The function that it returns waits for the results.
//
// A request may have waited long since it was admitted, and an entry may be committed long after
// it was proposed: the disk stalls, or the process stands still. Another cluster may have taken
// the queue over by then. So start asks again whether the leader may answer: before the entry is
// proposed, when a refusal is certain, and before the answers are delivered.
func (t *Term) start(ctx context.Context, batch []request) groupcommit.Wait[committed] {
	shares, left := t.admit(batch)
	if len(left) == 0 && len(batch) > 0 {
		return func() ([]committed, error) { return shares, nil }
	}
	entry := t.newEntry(t.clock.now())
	at, taken := t.assemble(entry, left)
	data, err := fsm.EncodeEntry(entry)
	if err == nil && len(data) > entryMax {
		err = ErrTooLarge
	}
	if err != nil {
		putBack(taken)
		return func() ([]committed, error) { return nil, err }
	}
	wait := t.do.Apply(data)
	return func() ([]committed, error) {
		results, lsn, err := wait(ctx)
		late := t.late()
		if err == nil && late != nil {
			deliver(taken, nil, lsn, late)
		} else {
			deliver(taken, results, lsn, err)
		}
		if err != nil {
			return nil, err
		}
		n := 0
		for i, r := range batch {
			switch {
			case shares[i].err != nil:
				continue
			case late != nil && !r.own && !r.ms.isHeartbeat():
				shares[i].err = late
			default:
				shares[i] = committed{results: results[at[n] : at[n]+len(r.ms)], lsn: lsn}
			}
			n++
		}
		return shares, nil
	}
}

// admit refuses the requests that have waited until this leader may answer them no more. It
// returns the shares of the batch, with their refusals, and the other requests.
func (t *Term) admit(batch []request) (shares []committed, left []request) {
	shares, left = make([]committed, len(batch)), batch
	if t.rival() == nil && t.gate.refusal() == nil {
		return shares, left
	}
	left = nil
	for i, r := range batch {
		if !r.own {
			shares[i].err = t.refuses(r.ms)
		}
		if shares[i].err == nil {
			left = append(left, r)
		}
	}
	return shares, left
}

// late returns the error of a write that is committed after another cluster may have taken the
// queue over; nil if none can have.
func (t *Term) late() error {
	if e := t.rival(); e != nil {
		return fmt.Errorf("%w: %s", ErrUnknown, e.Error())
	}
	return nil
}

// A claim that waits for a job is committed in the entry that makes the job available, right
// behind the mutation that does. Otherwise the claim would need a second entry: it would be
// woken when the first one is applied.

// handedOver is a taken claim and its index in the entry.
type handedOver struct {
	WaitingClaim
	at int
}

// deliver gives the taken claims of an entry their shares of its outcome.
func deliver(taken []handedOver, results []fsm.Result, lsn fsm.LSN, err error) {
	for _, h := range taken {
		if err != nil {
			h.Deliver(fsm.Result{}, fsm.LSN{}, err)
			continue
		}
		h.Deliver(results[h.at], lsn, nil)
	}
}

// putBack answers the taken claims of an entry that was not proposed as if there had been no
// job, so that they wait on: a mutation of another caller is the cause.
func putBack(taken []handedOver) {
	for _, h := range taken {
		h.Deliver(fsm.Result{}, fsm.LSN{}, nil)
	}
}

// assemble puts the mutations of a batch into an entry, and behind each proposal the waiting
// claims for the jobs that it makes available. It returns the index of each proposal's first
// mutation, and the claims. While writes are refused it takes none.
func (t *Term) assemble(entry *fsmpb.Batch, batch []request) (at []int, taken []handedOver) {
	at = make([]int, len(batch))
	if t.do.Waiting() == 0 || t.rival() != nil || t.gate.refusal() != nil {
		for i, p := range batch {
			at[i] = len(entry.Mutations)
			entry.Mutations = append(entry.Mutations, p.ms...)
		}
		return at, nil
	}
	left := t.claimBytes(batch)
	take := func(jobType string, n int) {
		for _, w := range t.do.TakeWaiting(jobType, n, left) {
			left -= w.Claim.SizeVT()
			taken = append(taken, handedOver{w, len(entry.Mutations)})
			entry.Mutations = append(entry.Mutations, w.Claim)
		}
	}
	t.do.Read(func(m *fsm.Machine) {
		jobs := m.NewForecast(entry.NowMs, take)
		for i, p := range batch {
			at[i] = len(entry.Mutations)
			entry.Mutations = append(entry.Mutations, p.ms...)
			for _, mut := range p.ms {
				jobs.Add(mut)
			}
		}
	})
	return at, taken
}

// claimBytes returns how many bytes of claims may be added to the entry of a batch.
func (t *Term) claimBytes(batch []request) int {
	left := entryMax / 2
	if t.cfg.MaxEntryBytes > 0 {
		left = t.cfg.MaxEntryBytes
	}
	for _, p := range batch {
		left -= p.size()
	}
	return left
}

// proposal is a list of mutations of one caller. They are committed together, in order,
// in one log entry.
type proposal []*fsmpb.Mutation

func (p proposal) size() int {
	size := 0
	for _, m := range p {
		size += m.SizeVT()
	}
	return size
}

// all reports whether each mutation of the proposal, and of its groups, is of a kind, and there is at least one.
func (p proposal) all(is func(*fsmpb.Mutation) bool) bool {
	for _, m := range p {
		if group := m.GetGroup(); group != nil && !proposal(group.Mutations).all(is) || group == nil && !is(m) {
			return false
		}
	}
	return len(p) > 0
}

// IsReport reports whether a mutation consists of reports of workers on jobs that they have leased.
func IsReport(m *fsmpb.Mutation) bool { return proposal{m}.isReport() }

func (p proposal) isReport() bool {
	return p.all(func(m *fsmpb.Mutation) bool {
		switch m.Op.(type) {
		case *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete, *fsmpb.Mutation_ForceComplete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release:
			return true
		}
		return false
	})
}

// isOfHooks reports whether the proposal consists of the alerts or the deliveries of hooks, which only the leader sends.
func (p proposal) isOfHooks() bool {
	return p.all(func(m *fsmpb.Mutation) bool { return m.GetSetAlert() != nil || m.GetReportHook() != nil })
}

// IsHeartbeat reports whether a mutation consists of heartbeats of workers.
func IsHeartbeat(m *fsmpb.Mutation) bool { return proposal{m}.isHeartbeat() }

func (p proposal) isHeartbeat() bool {
	return p.all(func(m *fsmpb.Mutation) bool { return m.GetHeartbeat() != nil })
}

// entryMax is the size of the largest log entry that is proposed, in bytes. Request
// bodies are bounded well below it.
const entryMax = 16 << 20

// newEntry returns an entry with the fields that the leader sets in each entry: the time,
// a random number that is the same on all nodes, and the LSN up to which no node needs
// its unflushed log any more.
func (b *base) newEntry(nowMs int64) *fsmpb.Batch {
	entry := &fsmpb.Batch{NowMs: nowMs, Random: rand.Uint64()}
	if kept := b.kept.Load(); kept != nil {
		entry.FlushedTerm, entry.FlushedIndex = kept.Term, kept.Index
	}
	return entry
}

// Apply proposes one entry outside of group commit, for mutations of the leader
// itself.
func (b *base) Apply(ctx context.Context, nowMs int64, ms ...*fsmpb.Mutation) ([]fsm.Result, error) {
	entry := b.newEntry(nowMs)
	entry.Mutations = ms
	data, err := fsm.EncodeEntry(entry)
	if err == nil && len(data) > entryMax {
		err = ErrTooLarge
	}
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	results, _, err := b.do.Apply(data)(ctx)
	return results, err
}

const applyTimeout = 10 * time.Second

// CheckLevel refuses mutations that need a higher level than the state has: a node that
// does not know that level stops at them.
func (b *base) CheckLevel(ms []*fsmpb.Mutation) error {
	for _, m := range ms {
		needed := fsm.LevelOf(m)
		if needed <= fsm.BaseLevel {
			continue
		}
		if level := b.meta().Level; needed > level {
			return fmt.Errorf("%w: the write needs feature level %d, and the cluster has %d", ErrLevel, needed, level)
		}
	}
	return nil
}
