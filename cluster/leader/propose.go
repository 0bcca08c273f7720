package leader

import (
	"context"

	"osqueue/fsm"
	"osqueue/internal/groupcommit"
)

func (t *Term) newProposer() *groupcommit.Batcher[proposal, committed] {
	return groupcommit.New(groupcommit.Config[proposal, committed]{
		Start:           t.start,
		Size:            proposal.size,
		Urgent:          proposal.isReport,
		MaxBytes:        t.cfg.MaxEntryBytes,
		MaxPendingItems: t.cfg.MaxPendingItems,
		MaxPendingBytes: t.cfg.MaxPendingBytes,
		MaxInFlight:     t.cfg.MaxInFlight,
	})
}

// start hands one log entry to raft. The function that it returns waits for the
// results.
func (t *Term) start(ctx context.Context, batch []proposal) groupcommit.Wait[committed] {
	entry := t.newEntry(t.clock.now())
	at, taken := t.assemble(entry, batch)
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
