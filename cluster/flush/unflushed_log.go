package flush

import (
	"sort"
	"sync"
	"sync/atomic"

	"osqueue/fsm"
	"osqueue/storage/archive"
)

// UnflushedLog keeps the entries that a node has applied and that the archive in
// the bucket does not have. A leader and its successors use it to continue the log of the
// archive. It drops the oldest entries when it is full. It is safe for concurrent use.
type UnflushedLog struct {
	max    int
	oldest atomic.Int64 // the clock at the first unflushed entry, ms; 0: none

	mu    sync.Mutex
	held  []archive.Entry // in order
	bytes int             // their memory, estimated
	after fsm.LSN         // held has all entries after it
	last  fsm.LSN

	flushed fsm.LSN // may be earlier or later than after
	lag     Lag     // of the unflushed entries
	lost    Lag     // the part of lag that was dropped
}

// Lag is the size of the entries that the bucket does not have.
type Lag struct {
	Entries uint64
	Bytes   int64
}

func (l *Lag) add(e *archive.Entry)      { l.Entries++; l.Bytes += int64(len(e.Data)) }
func (l *Lag) subtract(e *archive.Entry) { l.Entries--; l.Bytes -= int64(len(e.Data)) }

// NewUnflushedLog returns an unflushed log of at most bytesMax bytes of entries. It always keeps the
// newest entry.
func NewUnflushedLog(bytesMax int) *UnflushedLog { return &UnflushedLog{max: bytesMax} }

// Append adds the entry that was applied last.
func (j *UnflushedLog) Append(e archive.Entry) {
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

// forget drops the first entry of held. The caller holds the lock and removes e from held.
func (j *UnflushedLog) forget(e *archive.Entry) {
	if e.LSN.Compare(j.flushed) > 0 {
		j.lost.add(e)
	}
	j.bytes -= cost(e)
	j.after = e.LSN
}

// cost returns the approximate memory of an entry, bytes.
func cost(e *archive.Entry) int { return len(e.Data) + 64 }

// discard drops the first n entries. The array stays in use: append moves the rest when the
// array is full.
func discard(held []archive.Entry, n int) []archive.Entry {
	clear(held[:n])
	return held[n:]
}

// Reset starts the unflushed log again at lsn, with a state that did not come from entries.
func (j *UnflushedLog) Reset(lsn fsm.LSN) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.held, j.bytes, j.lag, j.lost = nil, 0, Lag{}, Lag{}
	j.after, j.last = lsn, lsn
	j.oldest.Store(0)
}

// Flushed records that the document has everything up to lsn.
func (j *UnflushedLog) Flushed(lsn fsm.LSN) {
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
	case j.lost.Entries > 0: // the oldest entry is a dropped one
	case to == len(j.held):
		j.oldest.Store(0)
	default:
		j.oldest.Store(max(j.held[to].At, 1))
	}
}

// Trim drops the entries up to lsn, which the archive has.
func (j *UnflushedLog) Trim(lsn fsm.LSN) {
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

// find returns the number of entries in held up to lsn.
func (j *UnflushedLog) find(lsn fsm.LSN) int {
	return sort.Search(len(j.held), func(i int) bool { return j.held[i].LSN.Compare(lsn) > 0 })
}

// Range returns the entries after one LSN and up to another: at most bytesMax bytes of
// them, but at least one entry. more reports whether there are further entries up to upTo;
// ok is false if some of the requested entries were dropped.
func (j *UnflushedLog) Range(after, upTo fsm.LSN, bytesMax int) (entries []archive.Entry, more, ok bool) {
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

// Last returns the LSN of the newest applied entry.
func (j *UnflushedLog) Last() fsm.LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.last
}

// FlushedLSN returns the LSN of the newest entry that is known to be in the bucket.
func (j *UnflushedLog) FlushedLSN() fsm.LSN {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.flushed
}

// Lag returns the size of the entries that are not known to be in the document.
func (j *UnflushedLog) Lag() Lag {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.lag
}

// OldestMs returns the machine's clock at the oldest entry that is not in the bucket, ms; 0
// if there is none. It takes no lock.
func (j *UnflushedLog) OldestMs() int64 { return j.oldest.Load() }
