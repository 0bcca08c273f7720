package segment

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/hashicorp/raft"
)

// ErrDamaged is wrapped by every error about data on the disk that differs from the written
// data.
var ErrDamaged = errors.New("the raft log is damaged: stop this node, delete its data directory and start it again; it gets " +
	"its state from the other nodes")

var errClosed = errors.New("the raft log is closed")

// Defaults of Options.
const (
	DefaultSize   = 8 << 20
	DefaultSpares = 2
	DefaultKeep   = 8
)

// Options are the settings of a Log. The zero value has the defaults.
type Options struct {
	Size   int64 // of a new segment in bytes, a multiple of 4096
	Spares int   // number of empty segments that are prepared; below 0: none before they are needed
	Keep   int   // most empty segments that are kept after a truncation
	// Free returns the free bytes on the disk; ok is false if they are unknown. If they are
	// few, the log prepares no segment before it needs it, and makes it smaller.
	Free func() (bytes int64, ok bool)
	// Warn is called from the log's own goroutine when it cannot prepare a segment, for
	// example because the disk is full. The log works until it needs that segment.
	Warn func(error)

	inline bool // no goroutine: an append prepares segments itself, and tests call work
}

func (o Options) withDefaults() Options {
	if o.Size == 0 {
		o.Size = DefaultSize
	}
	if o.Spares == 0 {
		o.Spares = DefaultSpares
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.Free == nil {
		o.Free = func() (int64, bool) { return 0, false }
	}
	if o.Warn == nil {
		o.Warn = func(error) {}
	}
	return o
}

// segment is one file in one generation. A file that is used again is another segment.
type segment struct {
	name    string
	file    File
	gen     uint32
	sectors uint32 // size of the file

	unnamed bool // see large

	// Guarded by Log.mu.
	firstSeq, lastSeq uint64  // of its frames; 0: none
	end               uint32  // first sector behind the last frame
	first             uint64  // index of places[0]
	places            []place // of its entries
}

// last returns the index of its last entry; ok is false if it has none.
func (s *segment) last() (index uint64, ok bool) {
	return s.first + uint64(len(s.places)) - 1, len(s.places) > 0
}

// Log is a raft log on the disk. It implements raft.LogStore and raft.MonotonicLogStore, and
// is safe for concurrent use.
type Log struct {
	fs   FS
	opts Options
	id   uint64
	salt salt
	meta File

	writing sync.Mutex // held during a write to the end of the log
	build   builder    // guarded by writing

	mu          sync.Mutex
	changed     sync.Cond  // of the fields below; with mu
	live        []*segment // with frames, in the order of their sequence numbers
	first, next uint64     // indexes of the first entry and behind the last one; equal: no entries
	seq         uint64     // of the last durable frame
	gen         uint32     // the highest one
	number      uint64     // of the newest file
	err         error      // of a write that failed: permanent
	duty        duty
}

// Open opens the log in a directory, and creates it if the directory is empty. It reads
// everything once. The error wraps ErrDamaged if a file is damaged or missing.
func Open(fs FS, o Options) (*Log, error) {
	l := &Log{fs: fs, opts: o.withDefaults()}
	l.changed.L = &l.mu
	if err := l.recover(); err != nil {
		return nil, errors.Join(err, l.closeFiles())
	}
	if !l.opts.inline {
		l.duty.done = make(chan struct{})
		go l.run()
	}
	return l, nil
}

// Close ends the log's goroutine and closes the files. It waits for a write that is under
// way.
func (l *Log) Close() error {
	l.mu.Lock()
	if l.err == nil {
		l.err = errClosed
	}
	l.duty.closing = true
	l.signal()
	l.mu.Unlock()
	if l.duty.done != nil {
		<-l.duty.done
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	return l.closeFiles()
}

func (l *Log) closeFiles() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	var errs []error
	if l.meta != nil {
		errs = append(errs, l.meta.Close())
	}
	for _, list := range [][]*segment{l.live, l.duty.released, l.duty.spares} {
		for _, s := range list {
			errs = append(errs, s.file.Close())
		}
	}
	l.meta, l.live, l.duty.released, l.duty.spares = nil, nil, nil, nil
	return errors.Join(errs...)
}

// IsMonotonic implements raft.MonotonicLogStore. It has raft clear the log after a restored
// state.
func (l *Log) IsMonotonic() bool { return true }

// FirstIndex implements raft.LogStore.
func (l *Log) FirstIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == l.next {
		return 0, nil
	}
	return l.first, nil
}

// LastIndex implements raft.LogStore.
func (l *Log) LastIndex() (uint64, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.first == l.next {
		return 0, nil
	}
	return l.next - 1, nil
}

// find returns the segment and the place of an entry.
func (l *Log) find(index uint64) (*segment, place, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if index < l.first || index >= l.next {
		return nil, place{}, false
	}
	for i := len(l.live) - 1; i >= 0; i-- {
		s := l.live[i]
		if last, ok := s.last(); ok && index >= s.first && index <= last {
			return s, s.places[index-s.first], true
		}
	}
	return nil, place{}, false
}

// GetLog implements raft.LogStore. It also works after a write has failed: it returns only
// entries that are durable.
func (l *Log) GetLog(index uint64, e *raft.Log) error {
	for {
		s, p, ok := l.find(index)
		if !ok {
			return raft.ErrLogNotFound
		}
		err := l.read(s, p, index, e)
		if err == nil {
			return nil
		}
		// The segment may have been used again since find.
		if again, _, _ := l.find(index); again == s {
			return fmt.Errorf("entry %d in %s: %w", index, s.name, err)
		}
	}
}

// read reads one entry of a segment.
func (l *Log) read(s *segment, p place, index uint64, e *raft.Log) error {
	at, end := p.pos/payloadSize, (p.pos+p.length-1)/payloadSize
	b := make([]byte, (end-at+1)*sectorSize)
	if _, err := s.file.ReadAt(b, int64(at)*sectorSize); err != nil {
		return err
	}
	for i := at; i <= end; i++ {
		if st, _ := l.salt.state(b[(i-at)*sectorSize:][:sectorSize], i, s.gen); st != current {
			return fmt.Errorf("the checksum of sector %d does not match: %w", i, ErrDamaged)
		}
	}
	b = joinPayloads(b)[p.pos-at*payloadSize:]
	if _, err := decodeEntry(b[:p.length], e); err != nil || e.Index != index {
		return fmt.Errorf("the segment has entry %d in its place: %w", e.Index, ErrDamaged)
	}
	return nil
}

// Sizes calls yield with the index and the size in bytes of each entry, the newest first, until
// yield returns false. yield must not call the log.
func (l *Log) Sizes(yield func(index uint64, bytes int) bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range slices.Backward(l.live) {
		for i, p := range slices.Backward(s.places) {
			if index := s.first + uint64(i); index < l.first || !yield(index, int(p.length)) {
				return
			}
		}
	}
}

// Place returns the file of an entry, and the bytes in it that have the entry, whole sectors.
func (l *Log) Place(index uint64) (file string, offset, length int64, err error) {
	s, p, ok := l.find(index)
	if !ok {
		return "", 0, 0, raft.ErrLogNotFound
	}
	at, end := p.pos/payloadSize, (p.pos+p.length-1)/payloadSize
	return s.name, int64(at) * sectorSize, int64(end-at+1) * sectorSize, nil
}

// StoreLog implements raft.LogStore.
func (l *Log) StoreLog(e *raft.Log) error { return l.StoreLogs([]*raft.Log{e}) }

// StoreLogs implements raft.LogStore. Entries whose indexes do not follow the last one
// replace the log: raft writes them only if a restored state contains everything before.
// After an error, a part of the entries may be in the log when it is opened again, and no
// further write is accepted.
func (l *Log) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	l.mu.Lock()
	first, next, err := l.first, l.next, l.err
	l.mu.Unlock()
	if err != nil {
		return err
	}
	if first != next && logs[0].Index < next {
		return fmt.Errorf("entry %d exists already: the last entry is %d", logs[0].Index, next-1)
	}
	for i, e := range logs {
		switch {
		case e.Index == 0 || e.Index != logs[0].Index+uint64(i):
			return fmt.Errorf("entry %d follows entry %d: the indexes must be consecutive", e.Index, logs[max(i, 1)-1].Index)
		case len(e.Data) > entryMax || len(e.Extensions) > entryMax-len(e.Data):
			return fmt.Errorf("entry %d is larger than %d bytes", e.Index, entryMax)
		}
	}
	for len(logs) > 0 {
		n, err := l.append(logs)
		if err != nil {
			return l.fail(err)
		}
		logs = logs[n:]
	}
	return nil
}

// fail makes err permanent. A write whose fsync has failed may be lost although the kernel
// reports later writes as durable, so nothing is written after it.
func (l *Log) fail(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil {
		l.err = fmt.Errorf("the raft log accepts no more writes, because one failed: %w", err)
		l.signal()
	}
	return err
}

// append writes the first n of the entries, as many as fit into one segment, as a frame.
func (l *Log) append(logs []*raft.Log) (n int, err error) {
	s, err := l.tail(sectorsOf(frameHeader + sizeOf(logs[0])))
	if err != nil {
		return 0, err
	}
	size := frameHeader
	for n < len(logs) && sectorsOf(size+sizeOf(logs[n])) <= int(s.sectors-s.end) {
		size += sizeOf(logs[n])
		n++
	}
	f := frame{kind: kindEntries, count: uint32(n), length: uint32(size), first: logs[0].Index}
	return n, l.write(s, f, logs[:n])
}

// write writes one frame to the end of the log and applies it.
func (l *Log) write(s *segment, f frame, logs []*raft.Log) error {
	f.seq = l.seq + 1 // only a holder of writing changes seq
	b, places := l.build.build(l.salt, s.gen, s.end, s.sectors, f, logs)
	err := writeSync(s.file, b, int64(s.end)*sectorSize)
	if err == nil && s.unnamed {
		err = l.rename(s.name)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		if s.firstSeq == 0 { // it is in no list
			err = errors.Join(err, s.file.Close())
		}
		return err
	}
	before := l.inUse()
	l.apply(s, f, places)
	l.release()
	if l.inUse() && (!before || f.seq == s.firstSeq) {
		l.signal() // a spare is due
	}
	return nil
}

func writeSync(f File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Sync()
}

// apply changes the state by a frame that is durable in segment s. The caller holds mu.
func (l *Log) apply(s *segment, f frame, places []place) {
	if s.firstSeq == 0 {
		s.firstSeq = f.seq
		l.live = append(l.live, s)
	}
	s.lastSeq, s.end = f.seq, s.end+f.sectors()
	l.seq = f.seq
	switch {
	case f.kind == kindTruncate:
		l.cut(f.first)
		return
	case f.first != l.next: // raft has restored a state
		l.cut(0)
		l.first, l.next = f.first, f.first
	}
	if len(s.places) == 0 {
		s.first = f.first
	}
	s.places = append(s.places, places...)
	l.next += uint64(f.count)
}

// cut removes the entries from an index on. The caller holds mu.
func (l *Log) cut(from uint64) {
	l.next = max(l.first, min(l.next, from))
	for _, s := range l.live {
		switch last, ok := s.last(); {
		case l.next == l.first:
			s.places = nil
		case ok && last >= l.next:
			s.places = s.places[:max(s.first, l.next)-s.first]
		}
	}
}

// DeleteRange implements raft.LogStore. The range must contain the start or the end of the
// log. The removal of the end is durable when DeleteRange returns. That of the start only
// changes memory, and becomes durable a little later: raft removes only entries that are in
// a snapshot, so they may return.
func (l *Log) DeleteRange(from, to uint64) error {
	done, err := l.deleteStart(from, to)
	if done || err != nil {
		return err
	}
	l.writing.Lock()
	defer l.writing.Unlock()
	if done, err := l.deleteStart(from, to); done || err != nil {
		return err
	}
	l.mu.Lock()
	if from <= l.first {
		from = 1 // also what was removed before, and is not recorded yet
	}
	l.mu.Unlock()
	s, err := l.tail(1)
	if err == nil {
		err = l.write(s, frame{kind: kindTruncate, length: frameHeader, first: from}, nil)
	}
	if err != nil {
		return l.fail(err)
	}
	return nil
}

// deleteStart removes a range that does not contain the end of the log. done is false if it
// does.
func (l *Log) deleteStart(from, to uint64) (done bool, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = max(from, 1)
	switch {
	case l.err != nil:
		return false, l.err
	case from > to || l.first == l.next || to < l.first || from >= l.next:
		return true, nil
	case to >= l.next-1:
		return false, nil
	case from > l.first:
		return false, fmt.Errorf("cannot delete the entries %d to %d: they are inside the log from %d to %d", from, to, l.first, l.next-1)
	}
	l.first = to + 1
	l.release()
	return true, nil
}

// release gives up the first segments if none of their entries counts, and has the start of
// the log recorded if it has changed. The caller holds mu.
func (l *Log) release() {
	for len(l.live) > 1 {
		s := l.live[0]
		if last, ok := s.last(); ok && last >= l.first {
			break
		}
		s.places = nil
		l.duty.released = append(l.duty.released, s)
		l.live[0] = nil
		l.live = l.live[1:]
	}
	if start, low := l.start(); start != l.duty.record.start || low != l.duty.record.low {
		l.duty.metaDue = true
		l.signal()
	}
}

// start returns the sequence number of the first frame that counts, and the first index; 0:
// there are no entries. The caller holds mu.
func (l *Log) start() (seq, low uint64) {
	seq = l.seq + 1
	if len(l.live) > 0 {
		seq = l.live[0].firstSeq
	}
	if l.first != l.next {
		low = l.first
	}
	return seq, low
}

// tail returns the segment for the next frame, which has room for a number of sectors. The
// caller holds writing.
func (l *Log) tail(sectors int) (*segment, error) {
	l.mu.Lock()
	var s *segment
	if n := len(l.live); n > 0 {
		s = l.live[n-1]
	}
	l.mu.Unlock()
	switch {
	case s != nil && sectors <= int(s.sectors-s.end):
		return s, nil
	case sectors >= int(l.opts.Size/sectorSize):
		return l.large(sectors)
	}
	s, err := l.spare()
	if err != nil || sectors <= int(s.sectors-s.end) {
		return s, err
	}
	l.mu.Lock()
	l.duty.spares = slices.Insert(l.duty.spares, 0, s)
	l.mu.Unlock()
	return l.large(sectors)
}
