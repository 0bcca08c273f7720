package leader

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/groupcommit"
)

// proposal is a list of mutations of one caller. They are committed together, in order,
// in one log entry.
type proposal []*fsmpb.Mutation

// committed is one caller's share of the results of an applied entry.
type committed struct {
	results []fsm.Result
	lsn     fsm.LSN
}

// entryMax is the size of the largest log entry that is proposed, in bytes. Request
// bodies are bounded well below it.
const entryMax = 16 << 20

// Propose commits mutations in one entry. It returns one result for each.
func (r *Term) Propose(ctx context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	if err := r.refuses(ms); err != nil {
		return nil, fsm.LSN{}, err
	}
	if err := r.CheckLevel(ms); err != nil {
		return nil, fsm.LSN{}, err
	}
	c, err := r.proposals.Do(ctx, ms)
	if err != nil {
		return nil, fsm.LSN{}, proposalError(err)
	}
	return c.results, c.lsn, nil
}

func (r *Term) newProposer() *groupcommit.Batcher[proposal, committed] {
	return groupcommit.New(groupcommit.Config[proposal, committed]{
		Start:           r.start,
		Size:            proposal.size,
		Urgent:          proposal.isReport,
		MaxBytes:        r.cfg.MaxEntryBytes,
		MaxPendingItems: r.cfg.MaxPendingItems,
		MaxPendingBytes: r.cfg.MaxPendingBytes,
		MaxInFlight:     r.cfg.MaxInFlight,
	})
}

func (p proposal) size() int {
	size := 0
	for _, m := range p {
		size += m.SizeVT()
	}
	return size
}

// start hands one log entry to raft. The function that it returns waits for the
// results.
func (r *Term) start(ctx context.Context, batch []proposal) groupcommit.Wait[committed] {
	entry := r.newEntry(r.clock.now())
	at, taken := r.assemble(entry, batch)
	data, err := fsm.EncodeEntry(entry)
	if err == nil && len(data) > entryMax {
		err = ErrTooLarge
	}
	if err != nil {
		putBack(taken)
		return func() ([]committed, error) { return nil, err }
	}
	wait := r.do.Apply(data)
	return func() ([]committed, error) {
		results, lsn, err := wait(ctx)
		deliver(taken, results, lsn, err)
		if err != nil {
			return nil, err
		}
		shares := make([]committed, len(batch))
		for i, p := range batch {
			shares[i] = committed{results: results[at[i] : at[i]+len(p)], lsn: lsn}
		}
		return shares, nil
	}
}

// newEntry returns an entry with the fields that the leader sets in each entry: the time,
// a random number that is the same on all nodes, and the LSN up to which no node needs
// its unflushed log any more.
func (n *base) newEntry(nowMs int64) *fsmpb.Batch {
	b := &fsmpb.Batch{NowMs: nowMs, Random: rand.Uint64()}
	if kept := n.kept.Load(); kept != nil {
		b.FlushedTerm, b.FlushedIndex = kept.Term, kept.Index
	}
	return b
}

// proposalError translates an error of the batcher to one of this package.
func proposalError(err error) error {
	switch {
	case errors.Is(err, groupcommit.ErrOverloaded):
		return ErrOverloaded
	case errors.Is(err, groupcommit.ErrClosed):
		return ErrNotLeader
	case errors.Is(err, groupcommit.ErrUnknown):
		return fmt.Errorf("%w: %w", ErrUnknown, err)
	default:
		return err
	}
}

// Apply proposes one entry outside of group commit, for mutations of the leader
// itself.
func (n *base) Apply(ctx context.Context, nowMs int64, ms ...*fsmpb.Mutation) ([]fsm.Result, error) {
	entry := n.newEntry(nowMs)
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
	results, _, err := n.do.Apply(data)(ctx)
	return results, err
}

const applyTimeout = 10 * time.Second
