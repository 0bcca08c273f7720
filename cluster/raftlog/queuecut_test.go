package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// TestPowerCutsOfTheQueue cuts the power while the queue of a leader writes to the log. After it
// the log must have every entry whose answer was released, and nothing but a prefix of the
// entries that were queued.
func TestPowerCutsOfTheQueue(t *testing.T) {
	t.Parallel()
	histories, lost := uint64(600), 0
	if testing.Short() {
		histories = 150
	}
	for seed := range histories {
		less, err := queueCut(seed)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if less {
			lost++
		}
	}
	if t.Logf("%d of %d logs lack the end of the queue", lost, histories); lost == 0 {
		t.Error("no entry was lost: nothing was queued")
	}
}

// queueCut makes one history. less reports whether the log lacks entries that were queued.
func queueCut(seed uint64) (less bool, err error) {
	rng := rand.New(rand.NewPCG(seed, 7))
	d := newPowerDisk(seed)
	l, err := Open(d, small)
	if err != nil {
		return false, err
	}
	d.cutAt = d.done + 1 + rng.IntN(120)
	n := &node{state: raft.Leader, voters: 3}
	l.Serve(n)
	m := &model{first: 1, next: 1, entries: map[uint64]string{}}
	released := uint64(0) // up to which index answers were released
	after := []*model{m}  // states that the log may have
	for range 1 + rng.IntN(60) {
		if err := queueStep(l, n, m, rng, &released, &after); err != nil {
			if !errors.Is(err, errPower) {
				return false, err
			}
			break
		}
	}
	next := d.cut()
	_, _ = l.LastIndex() // waits for the queue, which is on the old disk
	l, err = Open(next, small)
	if err != nil {
		return false, err
	}
	last, err := l.LastIndex()
	if err != nil {
		return false, err
	}
	if last < released {
		return false, fmt.Errorf("the log ends with entry %d, and answers up to %d were released", last, released)
	}
	for _, m := range after {
		less = last < m.next-1
		if err = prefix(m, last).check(l, true); err == nil {
			return less, nil
		}
	}
	return false, err
}

// prefix returns a model without the entries behind last.
func prefix(m *model, last uint64) *model {
	c := m.clone()
	c.next = min(c.next, max(last+1, c.first))
	return c
}

// queueStep makes one random call.
func queueStep(q *Log, n *node, m *model, rng *rand.Rand, released *uint64, after *[]*model) error {
	switch k := rng.IntN(20); {
	case k < 12 || m.next == 1:
		var logs []*raft.Log
		for i := range uint64(1 + rng.IntN(3)) {
			logs = append(logs, m.entry(m.next+i, rng.IntN(1200)))
		}
		if err := q.StoreLogs(logs); err != nil {
			return err
		}
		m.store(logs)
	case k < 17: // an answer
		index := 1 + rng.Uint64N(m.next-1)
		if err := q.Await(index, nil); err != nil {
			return err
		}
		*released = max(*released, index)
	case k < 18 && m.first < *released: // the start, as far as it is committed
		to := m.first + rng.Uint64N(*released-m.first)
		if err := q.DeleteRange(m.first, to); err != nil {
			return err
		}
		m.deleteRange(m.first, to)
	case k == 19 && *released+1 < m.next: // a new leader removes what is not committed
		n.state = raft.Follower
		defer func() { n.state = raft.Leader }()
		c := m.clone()
		c.deleteRange(*released+1, m.next-1)
		*after = []*model{m, c}
		if err := q.DeleteRange(*released+1, m.next-1); err != nil {
			return err
		}
		*m = *c
		*after = []*model{m}
	}
	return nil
}
