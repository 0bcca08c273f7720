package raftlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/hashicorp/raft"
)

// model is the expected content of a log.
type model struct {
	first, next uint64
	entries     map[uint64]string // also those before first, which may return
	made        uint64            // makes every entry unique
}

func (m *model) entry(index uint64, size int) *raft.Log {
	m.made++
	data := fmt.Appendf(make([]byte, 0, size+40), "entry %d, made as number %d ", index, m.made)
	for len(data) < size {
		data = append(data, byte(m.made), byte(len(data)))
	}
	return &raft.Log{Index: index, Term: m.made, Data: data}
}

// store records entries.
func (m *model) store(logs []*raft.Log) {
	if logs[0].Index != m.next {
		m.first, m.next, m.entries = logs[0].Index, logs[0].Index, map[uint64]string{}
	}
	for _, e := range logs {
		m.entries[e.Index] = string(e.Data)
		m.next++
	}
}

// deleteRange records a removal.
func (m *model) deleteRange(from, to uint64) {
	if to+1 >= m.next {
		for i := from; i < m.next; i++ {
			delete(m.entries, i)
		}
		m.next = from
		if m.next <= m.first {
			m.first, m.entries = m.next, map[uint64]string{}
		}
		return
	}
	m.first = to + 1
}

func (m *model) clone() *model {
	c := *m
	c.entries = map[uint64]string{}
	for i, e := range m.entries {
		c.entries[i] = e
	}
	return &c
}

// check compares a log with the model. reopened allows removed entries at the start.
func (m *model) check(l *Log, reopened bool) error {
	forget(l)
	first, _ := l.FirstIndex()
	last, _ := l.LastIndex()
	sized := last + 1
	for i, n := range l.Sizes {
		if i != sized-1 || n < len(m.entries[i]) || n > len(m.entries[i])+100 {
			return fmt.Errorf("entry %d has %d bytes, after entry %d", i, n, sized)
		}
		sized = i
	}
	if sized != max(first, 1) {
		return fmt.Errorf("the sizes end at entry %d, want %d", sized, first)
	}
	if m.first == m.next {
		if first != 0 || last != 0 {
			return fmt.Errorf("it has the entries %d to %d, want none", first, last)
		}
		return nil
	}
	if last != m.next-1 || first > m.first || first == 0 || first < m.first && !reopened {
		return fmt.Errorf("it has the entries %d to %d, want %d to %d", first, last, m.first, m.next-1)
	}
	for i := first; i <= last; i++ {
		var e raft.Log
		if err := l.GetLog(i, &e); err != nil {
			return err
		}
		if want, ok := m.entries[i]; !ok || want != string(e.Data) || e.Index != i {
			return fmt.Errorf("entry %d is %.60q, want %.60q", i, e.Data, want)
		}
	}
	return nil
}

var small = Options{Size: 16 << 10, Spares: 2, Keep: 3, inline: true}

// operate does random operations until one fails. after are the states that the log may
// have when it is opened again.
func operate(l *Log, m *model, rng *rand.Rand, steps int) (after []*model, err error) {
	for range steps {
		switch k := rng.IntN(20); {
		case k < 11:
			n := 1 + rng.IntN(3)
			at := m.next
			if at == 0 || m.first == m.next && rng.IntN(2) == 0 {
				at = 1 + rng.Uint64N(40)
			} else if rng.IntN(40) == 0 {
				at += 1 + rng.Uint64N(5)
			}
			var logs []*raft.Log
			for i := range uint64(n) {
				size := rng.IntN(1200)
				if rng.IntN(12) == 0 {
					size = rng.IntN(40 << 10)
				}
				logs = append(logs, m.entry(at+i, size))
			}
			err = l.StoreLogs(logs)
			if err != nil {
				after = []*model{m}
				for i := range logs {
					c := m.clone()
					c.store(logs[:i+1])
					after = append(after, c)
				}
				return after, err
			}
			m.store(logs)
		case k < 14 && m.first < m.next: // the end
			from := m.first + rng.Uint64N(m.next-m.first)
			if rng.IntN(6) == 0 {
				from = m.first
			}
			c := m.clone()
			c.deleteRange(from, m.next-1)
			if err = l.DeleteRange(from, m.next-1); err != nil {
				return []*model{m, c}, err
			}
			*m = *c
		case k < 17 && m.first+1 < m.next: // the start
			to := m.first + rng.Uint64N(m.next-m.first-1)
			if err = l.DeleteRange(m.first, to); err != nil {
				return []*model{m}, err
			}
			m.deleteRange(m.first, to)
		default:
			work(l)
		}
		if err := m.check(l, false); err != nil {
			return nil, fmt.Errorf("wrong: %w", err)
		}
	}
	return []*model{m}, nil
}

// resume opens a log and returns the model that it agrees with.
func resume(d *powerDisk, after []*model) (*Log, *model, error) {
	l, err := Open(d, small)
	if err != nil {
		return nil, nil, err
	}
	var errs []error
	for _, m := range after {
		err := m.check(l, true)
		if err == nil {
			m = m.clone()
			if m.first != m.next {
				m.first, _ = l.FirstIndex()
			}
			return l, m, nil
		}
		errs = append(errs, err)
	}
	return nil, nil, errors.Join(errs...)
}

// TestPowerCuts cuts the power at a random operation of a history, opens the log, which may
// be interrupted as well, and continues. Every acknowledged write must be there, and nothing
// that was removed or replaced.
func TestPowerCuts(t *testing.T) {
	t.Parallel()
	histories := uint64(1500)
	if testing.Short() {
		histories = 300
	}
	for seed := range histories {
		if err := powerCuts(seed); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
}

func powerCuts(seed uint64) error {
	rng := rand.New(rand.NewPCG(seed, 2))
	d := newPowerDisk(seed)
	m := &model{entries: map[uint64]string{}}
	after := []*model{m}
	for life := range 6 {
		switch rng.IntN(5) {
		case 0:
			d.failSync = d.done + 1 + rng.IntN(40)
		default:
			d.cutAt = d.done + 1 + rng.IntN(60)
		}
		l, now, err := resume(d, after)
		switch {
		case errors.Is(err, errPower) || errors.Is(err, errSync): // a state stays possible
		case err != nil:
			return fmt.Errorf("life %d: %w", life, err)
		default:
			after, err = operate(l, now, rng, 30)
			if after == nil {
				return fmt.Errorf("life %d: %w", life, err)
			}
			if err != nil && (l.StoreLog(now.entry(now.next, 1)) == nil || l.DeleteRange(1, now.next) == nil) {
				return fmt.Errorf("life %d: a write is accepted after: %w", life, err)
			}
		}
		if d.done < d.cutAt || rng.IntN(4) == 0 {
			d = d.restart()
		} else {
			d = d.cut()
		}
	}
	return nil
}
