package flush

import (
	"sort"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

// Journal holds the entries that a node has applied and that the archive in the
// bucket does not have, so that a leader, and whoever follows it, can continue the
// log there. It forgets the oldest when it is full. Safe for concurrent use.
type Journal struct {
	max    int
	oldest atomic.Int64 // the clock at the first entry that is not flushed, ms; 0: none

	mu    sync.Mutex
	held  []archive.Entry // in order
	bytes int             // what they cost
	after fsm.LSN         // all entries after it are held
	last  fsm.LSN

	flushed fsm.LSN // may lie before and behind after
	lag     Lag     // of the entries since
	lost    Lag     // the part of it that is not held any more
}

// Lag is what the bucket does not have.
type Lag struct {
	Entries uint64
	Bytes   int64
}

func (l *Lag) add(e *archive.Entry)      { l.Entries++; l.Bytes += int64(len(e.Data)) }
func (l *Lag) subtract(e *archive.Entry) { l.Entries--; l.Bytes -= int64(len(e.Data)) }

// NewJournal makes a journal that holds at most so many bytes of entries, but
// always the newest one.
func NewJournal(bytesMax int) *Journal { return &Journal{max: bytesMax} }

// Append adds the entry that was applied last.
func (j *Journal) Append(e archive.Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held = append(j.held, e)
	j.last = e.LSN
	j.bytes += cost(&e)
	j.lag.add(&e)
	j.oldest.CompareAndSwap(0, max(e.At, 1))
	n := 0
	for ; j.bytes > j.max && n < len(j.held)-1; n++ {
		j.forget(&j.held[n])
	}
	j.held = discard(j.held, n)
}

// forget drops an entry that is held first.
func (j *Journal) forget(e *archive.Entry) {
	if e.LSN.Compare(j.flushed) > 0 {
		j.lost.add(e)
	}
	j.bytes -= cost(e)
	j.after = e.LSN
}

// cost is what an entry takes in memory, about.
func cost(e *archive.Entry) int { return len(e.Data) + 64 }

// discard forgets the first n. The array is used on: append moves what is left
// when it is full.
func discard(held []archive.Entry, n int) []archive.Entry {
	clear(held[:n])
	return held[n:]
}

// Reset starts anew with a state that did not come from entries.
func (j *Journal) Reset(lsn fsm.LSN) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held, j.bytes, j.lag, j.lost = nil, 0, Lag{}, Lag{}
	j.after, j.last = lsn, lsn
	j.oldest.Store(0)
}

// Flushed says that the document has everything up to lsn.
func (j *Journal) Flushed(lsn fsm.LSN) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if lsn.Compare(j.flushed) <= 0 {
		return
	}
	from, to := j.find(j.flushed), j.find(lsn)
	for i := from; i < to; i++ {
		j.lag.subtract(&j.held[i])
	}
	j.flushed = lsn
	if lsn.Compare(j.after) >= 0 {
		j.lag.Entries -= j.lost.Entries
		j.lag.Bytes -= j.lost.Bytes
		j.lost = Lag{}
	}
	switch {
	case j.lost.Entries > 0: // the oldest is one of these
	case to == len(j.held):
		j.oldest.Store(0)
	default:
		j.oldest.Store(max(j.held[to].At, 1))
	}
}

// Trim forgets what is in the archive: everything up to lsn.
func (j *Journal) Trim(lsn fsm.LSN) {
	j.mu.Lock()
	defer j.mu.Unlock()
	n := j.find(lsn)
	for i := range n {
		j.forget(&j.held[i])
	}
	j.held = discard(j.held, n)
	if lsn.Compare(j.after) > 0 && lsn.Compare(j.last) <= 0 {
		j.after = lsn
	}
}

// find is the number of entries held up to lsn.
func (j *Journal) find(lsn fsm.LSN) int {
	return sort.Search(len(j.held), func(i int) bool { return j.held[i].LSN.Compare(lsn) > 0 })
}

// Range returns the entries after one LSN up to another, at most so many bytes of
// them but at least one. more says that there are further ones up to it; ok is
// false if some of those asked for are not held any more.
func (j *Journal) Range(after, upTo fsm.LSN, bytesMax int) (entries []archive.Entry, more, ok bool) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if after.Compare(j.after) < 0 {
		return nil, false, false
	}
	from, to := j.find(after), j.find(upTo)
	size, n := 0, from
	for ; n < to && (n == from || size+len(j.held[n].Data) <= bytesMax); n++ {
		size += len(j.held[n].Data)
	}
	return append([]archive.Entry(nil), j.held[from:max(n, from)]...), n < to, true
}

// Last is the newest entry applied.
func (j *Journal) Last() fsm.LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// FlushedLSN is the newest entry that is known to be in the bucket.
func (j *Journal) FlushedLSN() fsm.LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.flushed
}

// Lag is what is not in the document, as far as is known.
func (j *Journal) Lag() Lag {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lag
}

// OldestMs is the machine's clock at the oldest entry that is not in the bucket,
// ms; 0 if there is none. It takes no lock.
func (j *Journal) OldestMs() int64 { return j.oldest.Load() }
