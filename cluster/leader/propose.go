package leader

import (
	"context"
	"fmt"

	"osqueue/fsm"
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
