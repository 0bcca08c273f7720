package segment

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/hashicorp/raft"
)

// recover reads the directory, checks everything in it, and makes the last frame durable.
// DESIGN.md argues each rule.
func (l *Log) recover() error {
	names, err := l.fs.List()
	if err != nil {
		return err
	}
	var segments []string
	hasMeta := false
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, unfinished):
			if err := l.fs.Remove(name); err != nil {
				return err
			}
		case strings.HasSuffix(name, segmentExt):
			segments = append(segments, name)
		case name == MetaName:
			hasMeta = true
		}
	}
	if !hasMeta {
		if len(segments) > 0 {
			return fmt.Errorf("there are segments, but no file %q: %w", MetaName, ErrDamaged)
		}
		if err := l.createMeta(); err != nil {
			return fmt.Errorf("create the raft log: %w", err)
		}
	}
	// The process before this one may have ended between a rename and its fsync.
	if err := l.fs.SyncDir(); err != nil {
		return err
	}
	if l.meta, err = l.fs.Open(MetaName); err != nil {
		return err
	}
	if l.duty.record, err = readMeta(l.meta); err != nil {
		return damage(MetaName, err)
	}
	// The record may be in the page cache only: its fsync may have failed.
	if err := writeSync(l.meta, l.duty.record.sector(), l.duty.record.slot()); err != nil {
		return err
	}
	l.id, l.salt = l.duty.record.log, saltOf(l.duty.record.log)
	return l.readSegments(segments)
}

// damage adds ErrDamaged to an error about the content of a file.
func damage(name string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w: %w", name, err, ErrDamaged)
}

func (l *Log) createMeta() error {
	f, err := l.fs.Create(MetaName + unfinished)
	if err != nil {
		return err
	}
	var id [8]byte
	_, _ = rand.Read(id[:]) // never fails: crypto/rand ends the program instead
	b := make([]byte, metaSize)
	m := meta{log: binary.LittleEndian.Uint64(id[:]), n: 1, start: 1}
	copy(b[m.slot():], m.sector())
	if err := errors.Join(writeSync(f, b, 0), f.Close()); err != nil {
		return err
	}
	return l.rename(MetaName)
}

// scan is the content of one segment.
type scan struct {
	*segment
	frames []scanned
	torn   uint32 // number of the sectors behind the last frame that are to be cleared
	last   []byte // the sectors of the last frame

	// Of a segment without frames: the number of the write that has left a sector in it, and its
	// position, which is 0 if there is none.
	left   uint32
	leftAt uint32
}

type scanned struct {
	frame
	places []place
}

// scanBuffers are used again for each segment: a long log would leave as much garbage as it has
// bytes.
type scanBuffers struct {
	file  []byte
	frame []byte // the content of one frame
}

// readSegments reads all segments and restores the state from their frames.
func (l *Log) readSegments(names []string) error {
	var used, unused []*scan
	var buffers scanBuffers
	for _, name := range names {
		c, err := l.readSegment(name, &buffers)
		if c != nil {
			l.gen = max(l.gen, c.gen)
			var number uint64
			if _, err := fmt.Sscanf(name, "%d", &number); err == nil {
				l.number = max(l.number, number)
			}
			l.duty.released = append(l.duty.released, c.segment)
			if len(c.frames) > 0 && c.frames[len(c.frames)-1].seq >= l.duty.record.start {
				used = append(used, c)
			}
			if c.leftAt > 0 {
				unused = append(unused, c)
			}
		}
		if err != nil {
			return damage(name, err)
		}
	}
	slices.SortFunc(used, func(a, b *scan) int { return cmp.Compare(a.frames[0].seq, b.frames[0].seq) })
	for _, c := range used {
		c.firstSeq, c.end = c.frames[0].seq, 1
		l.live = append(l.live, c.segment)
	}
	l.duty.released = slices.DeleteFunc(l.duty.released, func(s *segment) bool { return s.firstSeq > 0 })
	return l.replay(used, unused)
}

// replay applies the frames of the segments that count. unused are segments without frames, in
// which an interrupted write may have left sectors.
func (l *Log) replay(used, unused []*scan) error {
	m := l.duty.record
	l.seq = m.start - 1
	for _, c := range used {
		if c.frames[0].seq != l.seq+1 {
			return fmt.Errorf("%s begins with write %d, but the segment before ends with %d: a part of the log is missing: %w",
				c.name, c.frames[0].seq, l.seq, ErrDamaged)
		}
		for _, f := range c.frames {
			l.apply(c.segment, f.frame, f.places)
			if f.seq == m.asOf && m.low > l.first && m.low < l.next {
				l.first = m.low
			}
		}
	}
	if l.seq < m.asOf {
		return fmt.Errorf("the log ends with write %d, but write %d was durable: %w", l.seq, m.asOf, ErrDamaged)
	}
	for _, c := range unused {
		if int32(c.left-uint32(l.seq)) > 1 {
			return fmt.Errorf("%s has a sector of write %d (sector %d) and not the writes before it, and the log ends with write %d: a part of the log is missing: %w",
				c.name, c.left, c.leftAt, l.seq, ErrDamaged)
		}
	}
	if len(used) > 0 {
		if err := l.repair(used[len(used)-1]); err != nil {
			return fmt.Errorf("repair the end of the raft log: %w", err)
		}
	}
	l.release()
	return nil
}

// repair writes the last frame once more and clears what an interrupted write has left
// behind it. The frame may be in the page cache only: its fsync may have failed or never have
// begun, and after a failure a new fsync would do nothing without a new write.
func (l *Log) repair(c *scan) error {
	n := uint32(len(c.last) / sectorSize)
	b := slices.Concat(c.last, make([]byte, max(int(c.torn)*sectorSize, pad(c.end-n, n, c.sectors)-len(c.last))))
	return writeSync(c.file, b, int64(c.end-n)*sectorSize)
}

// readSegment reads one segment. The segment is returned with an error, too, if its file is
// open.
func (l *Log) readSegment(name string, buffers *scanBuffers) (*scan, error) {
	f, err := l.fs.Open(name)
	if err != nil {
		return nil, err
	}
	c := &scan{segment: &segment{name: name, file: f}}
	size, err := f.Size()
	if err != nil {
		return c, err
	}
	if size < 2*sectorSize || size > int64(maxSectors)*sectorSize {
		return c, fmt.Errorf("the file has the invalid size of %d bytes", size)
	}
	if int64(cap(buffers.file)) < size {
		buffers.file = make([]byte, size)
	}
	b := buffers.file[:size]
	if _, err := f.ReadAt(b, 0); err != nil {
		return c, err
	}
	h, err := decodeHeader(b[:sectorSize], l.id)
	if err != nil {
		return c, err
	}
	if h.size != size {
		return c, fmt.Errorf("the file has %d bytes; expected %d", size, h.size)
	}
	c.gen, c.sectors = h.gen, uint32(size/sectorSize)
	return c, l.scan(c, b, &buffers.frame)
}

// maxSectors bounds the size of a segment: positions are 32-bit.
const maxSectors = (1<<32 - 1) / payloadSize

// scan finds the frames in the bytes of a segment. It ends at the first frame that is not
// complete. Such a frame is what an interrupted write has left, if each of its sectors is as
// before the write or as after it, and if no later write is behind it. Otherwise it is
// damaged.
func (l *Log) scan(c *scan, b []byte, buf *[]byte) error {
	c.end = 1
	var start uint32
	for c.end < c.sectors {
		f, ok, err := l.scanFrame(c, b, c.end, buf)
		if err != nil {
			return fmt.Errorf("sector %d: %w", c.end, err)
		}
		if !ok {
			break
		}
		if n := len(c.frames); n > 0 && f.seq != c.frames[n-1].seq+1 {
			return fmt.Errorf("sector %d: write %d follows write %d", c.end, f.seq, c.frames[n-1].seq)
		}
		c.frames = append(c.frames, f)
		start, c.end = c.end, c.end+f.sectors()
	}
	if len(c.frames) == 0 {
		return l.scanLeft(c, b) // the next generation makes all its sectors unused
	}
	c.last = slices.Clone(b[start*sectorSize : c.end*sectorSize])
	seq := uint32(c.frames[len(c.frames)-1].seq)
	for i := c.end; i < c.sectors; i++ {
		st, has := l.salt.state(b[i*sectorSize:][:sectorSize], i, c.gen)
		if st != current {
			continue
		}
		if int32(has-seq) > 1 {
			return fmt.Errorf("sector %d: a write is missing, but a later one is there", c.end)
		}
		c.torn = i + 1 - c.end
	}
	return nil
}

// scanLeft finds what an interrupted write has left in a segment without a complete frame: sectors
// of one write. Sectors of several writes show that the first of them was complete once.
func (l *Log) scanLeft(c *scan, b []byte) error {
	for i := uint32(1); i < c.sectors; i++ {
		st, has := l.salt.state(b[i*sectorSize:][:sectorSize], i, c.gen)
		switch {
		case st != current:
		case c.leftAt > 0 && has != c.left:
			return fmt.Errorf("sector 1: a write is missing, but there are sectors of the writes %d and %d", c.left, has)
		default:
			c.left, c.leftAt = has, i
		}
	}
	return nil
}

// scanFrame reads the frame that begins at a sector. ok is false if there is none, or if it
// is incomplete.
func (l *Log) scanFrame(c *scan, b []byte, at uint32, buf *[]byte) (f scanned, ok bool, err error) {
	sector := func(i uint32) (state, uint32) { return l.salt.state(b[i*sectorSize:][:sectorSize], i, c.gen) }
	st, seq := sector(at)
	switch st {
	case damaged:
		return f, false, errNeither
	case unused:
		return f, false, nil
	case current:
	}
	if f.frame, err = decodeFrame(b[at*sectorSize:][:payloadSize]); err != nil {
		return f, false, err
	}
	n := f.sectors()
	if f.seq&math.MaxUint32 != uint64(seq) || n > c.sectors-at {
		return f, false, errBadFrame
	}
	ok = true
	for i := at + 1; i < at+n; i++ {
		switch st, has := sector(i); {
		case st == damaged:
			return f, false, fmt.Errorf("%w, in a write of %d sectors", errNeither, n)
		case st == current && has != seq:
			return f, false, errBadFrame
		case st == unused:
			ok = false
		}
	}
	if !ok || f.kind == kindTruncate {
		return f, ok, nil
	}
	*buf = append((*buf)[:0], b[at*sectorSize:(at+n)*sectorSize]...)
	f.places, err = decodeFrameEntries(f.frame, joinPayloads(*buf), at)
	return f, err == nil, err
}

var errNeither = errors.New("the sector has neither its old nor its new content")

var _ interface {
	raft.LogStore
	raft.MonotonicLogStore
} = (*Log)(nil)
