package leader

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

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

// IsReport reports whether a mutation is a worker's report on a job that it has leased.
func IsReport(m *fsmpb.Mutation) bool {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Heartbeat, *fsmpb.Mutation_Complete, *fsmpb.Mutation_ForceComplete, *fsmpb.Mutation_Fail, *fsmpb.Mutation_Release:
		return true
	case *fsmpb.Mutation_Group:
		for _, part := range op.Group.Mutations {
			if !IsReport(part) {
				return false
			}
		}
		return true
	}
	return false
}

// isReport reports whether all mutations of the proposal are reports, and there is at
// least one.
func (p proposal) isReport() bool {
	for _, m := range p {
		if !IsReport(m) {
			return false
		}
	}
	return len(p) > 0
}

// isOfHooks reports whether all mutations of the proposal are the alerts or the deliveries of
// hooks, which only the leader sends, and there is at least one.
func (p proposal) isOfHooks() bool {
	for _, m := range p {
		switch m.Op.(type) {
		case *fsmpb.Mutation_SetAlert, *fsmpb.Mutation_ReportHook:
		default:
			return false
		}
	}
	return len(p) > 0
}

// IsHeartbeat reports whether a mutation consists of heartbeats of workers.
func IsHeartbeat(m *fsmpb.Mutation) bool { return proposal{m}.isHeartbeat() }

// isHeartbeat reports whether all mutations of the proposal are heartbeats of workers,
// and there is at least one.
func (p proposal) isHeartbeat() bool {
	for _, m := range p {
		switch op := m.Op.(type) {
		case *fsmpb.Mutation_Heartbeat:
		case *fsmpb.Mutation_Group:
			if !proposal(op.Group.Mutations).isHeartbeat() {
				return false
			}
		default:
			return false
		}
	}
	return len(p) > 0
}

func announce(kind fsm.AnnounceKind, text string) *fsmpb.Mutation {
	op := &fsmpb.Announce{Kind: uint32(kind), Text: text}
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Announce{Announce: op}}
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
