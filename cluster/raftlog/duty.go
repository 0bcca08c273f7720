package raftlog

import (
	"errors"
	"slices"

	"github.com/hashicorp/raft"
)

// Defaults of Options.
const (
	defaultSize   = 8 << 20
	defaultSpares = 2
	defaultKeep   = 8
)

// Sizes of segments on a disk with little space, as parts of Options.Size.
const (
	scarceBelow = 16 // times Size: below that the free space is little
	smallPart   = 8
	leastPart   = 64
)

// sizes returns the sizes of the next segment, the first one to be tried first. An append
// that waits for the segment takes a smaller one, too.
func (o *Options) sizes(wanted, scarce bool) []int64 {
	sizes := []int64{o.Size, o.Size / smallPart, o.Size / leastPart}
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

// frames writes entries in as many frames as they need. The caller holds mu, which frames releases during
// an access to the disk, and has begun a write.
func (l *Log) frames(logs []*raft.Log) error {
	for len(logs) > 0 {
		s, err := l.room(sectorsOf(frameHeader + sizeOf(logs[0])))
		if err != nil {
			return err
		}
		n, size := 0, frameHeader
		for n < len(logs) && sectorsOf(size+sizeOf(logs[n])) <= int(s.sectors-s.end) {
			size += sizeOf(logs[n])
			n++
		}
		f := frame{kind: kindEntries, count: uint32(n), length: uint32(size), first: logs[0].Index}
		if err := l.frame(s, f, logs[:n]); err != nil {
			return err
		}
		logs = logs[n:]
	}
	return nil
}

// frame writes one frame to the end of the log and applies it. It is called as frames is.
func (l *Log) frame(s *segment, f frame, logs []*raft.Log) error {
	f.seq = l.seq + 1 // only a write changes it
	at := s.end
	var places []place
	err := l.unlocked(func() (err error) {
		var b []byte
		b, places = l.build.build(l.salt, s.gen, at, s.sectors, f, logs)
		if err = writeSync(s.file, b, int64(at)*sectorSize); err == nil && s.unnamed {
			err = setName(l.disk, s.name)
		}
		return err
	})
	if err != nil {
		if s.firstSeq == 0 { // it is in no list
			err = errors.Join(err, s.file.Close())
		}
		return err
	}
	before := l.inUse(l.opts.Size / smallPart)
	l.apply(s, f, places)
	l.releaseLocked()
	if l.inUse(l.opts.Size/smallPart) && (!before || f.seq == s.firstSeq) {
		l.maintainLocked() // a spare is due
	}
	return nil
}

func writeSync(f File, b []byte, at int64) error {
	if _, err := f.WriteAt(b, at); err != nil {
		return err
	}
	return f.Sync()
}

// setName gives a file its final name, durably.
func setName(d Disk, name string) error {
	if err := d.Rename(name+unfinished, name); err != nil {
		return err
	}
	return d.SyncDir()
}

// releaseLocked gives up segments without entries, and has the start of the log recorded if it has changed.
func (l *Log) releaseLocked() {
	if l.release() {
		l.metaDue = true
		l.maintainLocked()
	}
}

// room returns the segment for the next frame, which has room for a number of sectors. It is called as frames is.
func (l *Log) room(sectors int) (*segment, error) {
	if n := len(l.live); n > 0 && sectors <= int(l.live[n-1].sectors-l.live[n-1].end) {
		return l.live[n-1], nil
	}
	if sectors >= int(l.opts.Size/sectorSize) {
		return l.large(sectors)
	}
	s, err := l.spare()
	if err != nil || sectors <= int(s.sectors-s.end) {
		return s, err
	}
	l.spares = slices.Insert(l.spares, 0, s)
	return l.large(sectors)
}

// spare returns an empty segment, and waits for one if none is prepared. It is called as frames is.
func (l *Log) spare() (*segment, error) {
	l.unprepared, l.wanted = nil, true // try again
	defer func() { l.wanted = false }()
	l.maintainLocked()
	for {
		switch {
		case l.err != nil:
			return nil, l.err
		case len(l.spares) > 0:
			s := l.spares[0]
			l.spares = slices.Delete(l.spares, 0, 1)
			return s, nil
		case l.unprepared != nil:
			return nil, l.unprepared
		case l.opts.inline:
			l.workLocked()
		default:
			l.waitLocked(nil)
		}
	}
}

// large returns a new segment for one entry that is too large for the others. It is called as frames is.
func (l *Log) large(sectors int) (*segment, error) {
	s := l.add(int64(sectors+1) * sectorSize)
	s.unnamed = true
	return s, l.unlocked(func() (err error) {
		if s.file, err = l.disk.Create(s.name + unfinished); err != nil {
			return err
		}
		if _, err = s.file.WriteAt(l.header(s), 0); err != nil {
			return errors.Join(err, s.file.Close())
		}
		return nil
	})
}

// maintainLocked has a goroutine do the work for which appends and truncations need not wait: it records where
// the log starts, reuses segments, and prepares spares. The goroutine ends when nothing is left to do.
func (l *Log) maintainLocked() {
	if l.maintains || l.opts.inline {
		return
	}
	l.maintains = true
	go func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		for l.workLocked() {
		}
		l.maintains = false
		l.signalLocked()
	}()
}

// workLocked does one piece of work, and releases mu meanwhile. It reports whether there was any.
func (l *Log) workLocked() bool {
	scarce := false
	_ = l.unlocked(func() error {
		free, known := l.disk.Free()
		scarce = known && free < scarceBelow*l.opts.Size
		return nil
	})
	wanted := l.wanted && len(l.spares) == 0
	switch {
	case l.err != nil:
		return false
	case l.metaDue:
		l.recordStart()
	case len(l.released) > 0:
		s := l.released[0]
		l.released = slices.Delete(l.released, 0, 1)
		limit := l.opts.Keep
		if scarce {
			limit = 1
		}
		if int64(s.sectors)*sectorSize == l.opts.Size && len(l.spares) < limit {
			l.renew(s)
		} else {
			l.remove(s)
		}
	case l.unprepared == nil && (wanted || !scarce && l.inUse(l.opts.Size/smallPart) && len(l.spares) < l.opts.Spares):
		l.prepare(l.opts.sizes(wanted, scarce))
	default:
		return false
	}
	return true
}

// recordStart writes a record to meta.
func (l *Log) recordStart() {
	m := l.record
	m.n++
	m.start, m.low = l.start()
	m.asOf = l.seq
	l.metaDue = false
	_ = l.write("record the start of the raft log", 0, func() error {
		err := l.unlocked(func() error { return writeSync(l.meta, m.sector(), m.slot()) })
		if err == nil {
			l.record = m
		}
		return err
	})
}

// renew gives a released segment a new generation. Nothing in it counts any more, and the
// record that says so is durable.
func (l *Log) renew(old *segment) {
	l.gen++
	s := &segment{name: old.name, file: old.file, gen: l.gen, sectors: old.sectors, end: 1}
	_ = l.write("reuse a segment of the raft log", 0, func() error {
		err := l.unlocked(func() error { return writeSync(s.file, l.header(s), 0) })
		if err != nil {
			return errors.Join(err, s.file.Close())
		}
		l.spares, l.unprepared = append(l.spares, s), nil
		l.signalLocked()
		return nil
	})
}

// remove deletes a segment that is not needed. If a power cut undoes this, the segment is
// released again when the log is opened.
func (l *Log) remove(s *segment) {
	_ = l.unlocked(func() error {
		if err := errors.Join(s.file.Close(), l.disk.Remove(s.name)); err != nil {
			l.opts.Logger.Warn("cannot remove a segment of the raft log", "segment", s.name, "error", err)
		}
		return nil
	})
	l.unprepared = nil // there is more space
}

// prepare creates an empty segment. If that fails, it is tried again when an append needs
// the segment.
func (l *Log) prepare(sizes []int64) {
	var err error
	for _, size := range sizes {
		s := l.add(size)
		if err = l.unlocked(func() error { return l.create(s) }); err == nil {
			l.spares = append(l.spares, s)
			break
		}
	}
	if err != nil && l.err == nil {
		_ = l.unlocked(func() error {
			l.opts.Logger.Warn("cannot prepare a segment of the raft log; free space on the disk: otherwise this node stops when "+
				"the current segment is full", "error", err)
			return nil
		})
	}
	l.unprepared = err
	l.signalLocked()
}

// zeroes is written to new segments. Each write of it is made durable by itself, so that
// the fsync of an append has not to wait for the whole segment.
var zeroes [1 << 20]byte

// create creates the file of a segment. Its blocks are allocated and contain zeros, so that the
// fsync of an append has no metadata to write. The caller does not hold mu.
func (l *Log) create(s *segment) error {
	f, err := l.disk.Create(s.name + unfinished)
	if err != nil {
		return err
	}
	s.file = f
	size := int64(s.sectors) * sectorSize
	for at := int64(0); at < size && err == nil; at += int64(len(zeroes)) {
		if err = l.failed(); err == nil {
			err = writeSync(f, zeroes[:min(int64(len(zeroes)), size-at)], at)
		}
	}
	if err == nil {
		err = writeSync(f, l.header(s), 0)
	}
	if err == nil {
		err = setName(l.disk, s.name)
	}
	if err != nil {
		return errors.Join(err, f.Close(), l.disk.Remove(s.name+unfinished))
	}
	return nil
}
