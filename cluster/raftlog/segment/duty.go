package segment

import (
	"errors"
	"fmt"
	"slices"
)

// duty is the work that the log's own goroutine does, so that appends and truncations need
// not wait for it. The fields are guarded by Log.mu, except where noted.
//
//	released -- the record in meta is durable, a new generation is in the header --> spares
//	spares   -- an append takes one and writes its first frame --> live
//	live     -- no entry of it counts --> released
type duty struct {
	released []*segment // live ones given up, and files that had no frame at the start
	spares   []*segment // empty, with a durable header
	metaDue  bool       // the record in meta is to be written
	record   meta       // the durable one
	wanted   bool       // an append waits for a spare
	failed   error      // of the last attempt to prepare a segment; nil: try
	closing  bool
	signals  uint64 // calls of signal

	done chan struct{} // closed when the goroutine has ended; not guarded
}

// run works until Close.
func (l *Log) run() {
	defer close(l.duty.done)
	l.mu.Lock()
	defer l.mu.Unlock()
	for !l.duty.closing {
		seen := l.duty.signals
		l.mu.Unlock()
		did := l.work()
		l.mu.Lock()
		// A signal since work has looked would be lost: an append could wait without end.
		if !did && l.duty.signals == seen && !l.duty.closing {
			l.changed.Wait()
		}
	}
}

// signal wakes the log's own goroutine, and an append that waits for a spare. The caller holds
// mu.
func (l *Log) signal() {
	l.duty.signals++
	l.changed.Broadcast()
}

// work does one piece of work. It reports whether there was any.
func (l *Log) work() bool {
	scarce := l.scarce()
	l.mu.Lock()
	d := &l.duty
	if l.err != nil || d.closing {
		l.mu.Unlock()
		return false
	}
	switch {
	case d.metaDue:
		m := d.record
		m.n++
		m.start, m.low = l.start()
		m.asOf = l.seq
		d.metaDue = false
		l.mu.Unlock()
		l.record(m)
	case len(d.released) > 0:
		s := d.released[0]
		d.released = slices.Delete(d.released, 0, 1)
		limit := l.opts.Keep
		if scarce {
			limit = 1
		}
		keep := int64(s.sectors)*sectorSize == l.opts.Size && len(d.spares) < limit
		l.gen++
		gen := l.gen
		l.mu.Unlock()
		if keep {
			l.renew(s, gen)
		} else {
			l.remove(s)
		}
	case d.failed == nil && (d.wanted && len(d.spares) == 0 || !scarce && l.inUse() && len(d.spares) < l.opts.Spares):
		wanted := d.wanted && len(d.spares) == 0
		l.mu.Unlock()
		l.prepare(l.sizes(wanted, scarce))
	default:
		l.mu.Unlock()
		return false
	}
	return true
}

// record writes a record to meta.
func (l *Log) record(m meta) {
	if err := writeSync(l.meta, m.sector(), m.slot()); err != nil {
		_ = l.fail(fmt.Errorf("record the start of the raft log: %w", err))
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duty.record = m
}

// renew gives a released segment a new generation. Nothing in it counts any more, and the
// record that says so is durable.
func (l *Log) renew(s *segment, gen uint32) {
	h := header{log: l.id, size: int64(s.sectors) * sectorSize, gen: gen}
	if err := writeSync(s.file, h.sector(), 0); err != nil {
		_ = l.fail(errors.Join(fmt.Errorf("reuse the segment %s of the raft log: %w", s.name, err), s.file.Close()))
		return
	}
	l.addSpare(&segment{name: s.name, file: s.file, gen: gen, sectors: s.sectors, end: 1})
}

func (l *Log) addSpare(s *segment) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duty.spares = append(l.duty.spares, s)
	l.duty.failed = nil
	l.signal()
}

// remove deletes a segment that is not needed. If a power cut undoes this, the segment is
// released again when the log is opened.
func (l *Log) remove(s *segment) {
	if err := errors.Join(s.file.Close(), l.fs.Remove(s.name)); err != nil {
		l.opts.Warn(fmt.Errorf("remove the segment %s of the raft log: %w", s.name, err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duty.failed = nil // there is more space
}

// Sizes of segments on a disk with little space, as parts of Options.Size.
const (
	scarceBelow = 16 // times Size: below that the free space is little
	smallPart   = 8
	leastPart   = 64
)

// scarce reports whether the disk has little free space, which snapshots need more than
// spares do.
func (l *Log) scarce() bool {
	free, known := l.opts.Free()
	return known && free < scarceBelow*l.opts.Size
}

// inUse reports whether the last segment has so many entries that the next one is to be
// prepared. A node that writes next to nothing keeps one segment. The caller holds mu.
func (l *Log) inUse() bool {
	if len(l.live) == 0 {
		return false
	}
	s := l.live[len(l.live)-1]
	return int64(s.end)*sectorSize >= l.opts.Size/smallPart
}

// sizes returns the sizes of the next segment, the first one to be tried first. An append
// that waits for the segment takes a smaller one, too.
func (l *Log) sizes(wanted, scarce bool) []int64 {
	sizes := []int64{l.opts.Size, l.opts.Size / smallPart, l.opts.Size / leastPart}
	for i := range sizes {
		sizes[i] = max(sizes[i]/blockSize, 2) * blockSize
	}
	switch {
	case !wanted:
		return sizes[:1]
	case scarce:
		return sizes[1:]
	}
	return sizes
}

// prepare creates an empty segment. If that fails, it is tried again when an append needs
// the segment.
func (l *Log) prepare(sizes []int64) {
	var err error
	for _, size := range sizes {
		l.mu.Lock()
		l.gen++
		l.number++
		gen, number := l.gen, l.number
		l.mu.Unlock()
		var s *segment
		if s, err = l.create(gen, number, size); err == nil {
			l.addSpare(s)
			return
		}
		if errors.Is(err, errClosed) {
			break
		}
	}
	if !errors.Is(err, errClosed) {
		l.opts.Warn(fmt.Errorf("prepare a segment of the raft log: %w; free space on the disk: otherwise this node stops when "+
			"the current segment is full", err))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.duty.failed = err
	l.signal()
}

// zeroes is written to new segments. Each write of it is made durable by itself, so that
// the fsync of an append has not to wait for the whole segment.
var zeroes [1 << 20]byte

// create returns a new segment. Its blocks are allocated and contain zeros, so that the
// fsync of an append has no metadata to write.
func (l *Log) create(gen uint32, number uint64, size int64) (*segment, error) {
	s := &segment{name: segmentName(number), gen: gen, sectors: uint32(size / sectorSize), end: 1}
	f, err := l.fs.Create(s.name + unfinished)
	if err != nil {
		return nil, err
	}
	s.file = f
	for at := int64(0); at < size && err == nil; at += int64(len(zeroes)) {
		if l.isClosing() {
			err = errClosed
			break
		}
		err = writeSync(f, zeroes[:min(int64(len(zeroes)), size-at)], at)
	}
	if err == nil {
		err = writeSync(f, header{log: l.id, size: size, gen: gen}.sector(), 0)
	}
	if err == nil {
		err = l.rename(s.name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), l.fs.Remove(s.name+unfinished))
	}
	return s, nil
}

func segmentName(number uint64) string { return fmt.Sprintf("%08d%s", number, segmentExt) }

// rename gives a file its final name, durably.
func (l *Log) rename(name string) error {
	if err := l.fs.Rename(name+unfinished, name); err != nil {
		return err
	}
	return l.fs.SyncDir()
}

func (l *Log) isClosing() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.duty.closing
}

// spare returns an empty segment, and waits for one if none is prepared. The caller holds
// writing.
func (l *Log) spare() (*segment, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	d := &l.duty
	d.failed = nil // try again
	d.wanted = true
	defer func() { d.wanted = false }()
	l.signal()
	for {
		switch {
		case l.err != nil:
			return nil, l.err
		case len(d.spares) > 0:
			s := d.spares[0]
			d.spares = slices.Delete(d.spares, 0, 1)
			return s, nil
		case d.failed != nil:
			return nil, d.failed
		case l.opts.inline:
			l.mu.Unlock()
			l.work()
			l.mu.Lock()
		default:
			l.changed.Wait()
		}
	}
}

// large returns a new segment for one entry that is too large for the others. The segment
// gets its name when the entry is in it. The caller holds writing.
func (l *Log) large(sectors int) (*segment, error) {
	l.mu.Lock()
	l.gen++
	l.number++
	gen, number := l.gen, l.number
	l.mu.Unlock()
	f, err := l.fs.Create(segmentName(number) + unfinished)
	if err != nil {
		return nil, err
	}
	s := &segment{name: segmentName(number), file: f, gen: gen, sectors: uint32(sectors) + 1, end: 1, unnamed: true}
	if _, err := f.WriteAt(header{log: l.id, size: int64(s.sectors) * sectorSize, gen: gen}.sector(), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return s, nil
}
