package segment

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/hashicorp/raft"
)

// Queue has the methods of *raftlog.Log that a history calls. Package raftlog imports this one, so
// its tests are in another package.
type Queue interface {
	raft.LogStore
	Await(index uint64, stop <-chan struct{}) error
}

// QueueCut makes one history. less reports whether the log lacks entries that were queued.
func QueueCut(seed uint64, open func(l *Log, leads *bool) Queue) (less bool, err error) {
	rng := rand.New(rand.NewPCG(seed, 7))
	d := newDisk(seed)
	l, err := Open(d, small)
	if err != nil {
		return false, err
	}
	d.cutAt = d.done + 1 + rng.IntN(120)
	leads := true
	q := open(l, &leads)
	m := &model{first: 1, next: 1, entries: map[uint64]string{}}
	released := uint64(0) // up to which index answers were released
	after := []*model{m}  // states that the log may have
	for range 1 + rng.IntN(60) {
		if err := queueStep(q, &leads, m, rng, &released, &after); err != nil {
			if !errors.Is(err, errPower) {
				return false, err
			}
			break
		}
	}
	next := d.cut()
	_, _ = q.LastIndex() // waits for the queue, which is on the old disk
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
func queueStep(q Queue, leads *bool, m *model, rng *rand.Rand, released *uint64, after *[]*model) error {
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
		*leads = false
		defer func() { *leads = true }()
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
