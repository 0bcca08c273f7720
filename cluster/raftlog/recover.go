package raftlog

import (
	"cmp"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
)

// recover reads the directory, checks everything in it, and makes the last frame durable.
// DESIGN.md argues each rule.
func (s *segments) recover(d Disk) error {
	names, err := d.List()
	if err != nil {
		return err
	}
	var segments []string
	hasMeta := false
	for _, name := range names {
		switch {
		case strings.HasSuffix(name, unfinished):
			if err := d.Remove(name); err != nil {
				return err
			}
		case strings.HasSuffix(name, segmentExt):
			segments = append(segments, name)
		case name == metaName:
			hasMeta = true
		}
	}
	if !hasMeta {
		if len(segments) > 0 {
			return fmt.Errorf("there are segments, but no file %q: %w", metaName, ErrDamaged)
		}
		if err := createMeta(d); err != nil {
			return fmt.Errorf("create the raft log: %w", err)
		}
	}
	// The process before this one may have ended between a rename and its fsync.
	if err := d.SyncDir(); err != nil {
		return err
	}
	if s.meta, err = d.Open(metaName); err != nil {
		return err
	}
	if s.record, err = readMeta(s.meta); err != nil {
		return damage(metaName, err)
	}
	// The record may be in the page cache only: its fsync may have failed.
	if err := writeSync(s.meta, s.record.sector(), s.record.slot()); err != nil {
		return err
	}
	s.id, s.salt = s.record.log, saltOf(s.record.log)
	return s.readSegments(d, segments)
}

// damage adds ErrDamaged to an error about the content of a file.
func damage(name string, err error) error {
	if errors.Is(err, ErrDamaged) {
		return fmt.Errorf("%s: %w", name, err)
	}
	return fmt.Errorf("%s: %w: %w", name, err, ErrDamaged)
}

func createMeta(d Disk) error {
	f, err := d.Create(metaName + unfinished)
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
	return setName(d, metaName)
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
func (s *segments) readSegments(d Disk, names []string) error {
	var used, unused []*scan
	var buffers scanBuffers
	for _, name := range names {
		c, err := s.readSegment(d, name, &buffers)
		if c != nil {
			s.gen = max(s.gen, c.gen)
			var number uint64
			if _, err := fmt.Sscanf(name, "%d", &number); err == nil {
				s.number = max(s.number, number)
			}
			s.released = append(s.released, c.segment)
			if len(c.frames) > 0 && c.frames[len(c.frames)-1].seq >= s.record.start {
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
		s.live = append(s.live, c.segment)
	}
	s.released = slices.DeleteFunc(s.released, func(c *segment) bool { return c.firstSeq > 0 })
	return s.replay(used, unused)
}

// replay applies the frames of the segments that count. unused are segments without frames, in
// which an interrupted write may have left sectors.
func (s *segments) replay(used, unused []*scan) error {
	m := s.record
	s.seq = m.start - 1
	for _, c := range used {
		if c.frames[0].seq != s.seq+1 {
			return fmt.Errorf("%s begins with write %d, but the segment before ends with %d: a part of the log is missing: %w",
				c.name, c.frames[0].seq, s.seq, ErrDamaged)
		}
		for _, f := range c.frames {
			s.apply(c.segment, f.frame, f.places)
			if f.seq == m.asOf && m.low > s.first && m.low < s.next {
				s.first = m.low
			}
		}
	}
	if s.seq < m.asOf {
		return fmt.Errorf("the log ends with write %d, but write %d was durable: %w", s.seq, m.asOf, ErrDamaged)
	}
	for _, c := range unused {
		if int32(c.left-uint32(s.seq)) > 1 {
			return fmt.Errorf("%s has a sector of write %d (sector %d) and not the writes before it, and the log ends with write %d: a part of the log is missing: %w",
				c.name, c.left, c.leftAt, s.seq, ErrDamaged)
		}
	}
	if len(used) > 0 {
		if err := s.repair(used[len(used)-1]); err != nil {
			return fmt.Errorf("repair the end of the raft log: %w", err)
		}
	}
	return nil
}

// repair writes the last frame once more and clears what an interrupted write has left
// behind it. The frame may be in the page cache only: its fsync may have failed or never have
// begun, and after a failure a new fsync would do nothing without a new write.
func (s *segments) repair(c *scan) error {
	n := uint32(len(c.last) / sectorSize)
	b := slices.Concat(c.last, make([]byte, max(int(c.torn)*sectorSize, pad(c.end-n, n, c.sectors)-len(c.last))))
	return writeSync(c.file, b, int64(c.end-n)*sectorSize)
}

// readSegment reads one segment. The segment is returned with an error, too, if its file is
// open.
func (s *segments) readSegment(d Disk, name string, buffers *scanBuffers) (*scan, error) {
	f, err := d.Open(name)
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
	h, err := decodeHeader(b[:sectorSize], s.id)
	if err != nil {
		return c, err
	}
	if h.size != size {
		return c, fmt.Errorf("the file has %d bytes; expected %d", size, h.size)
	}
	c.gen, c.sectors = h.gen, uint32(size/sectorSize)
	return c, s.salt.scan(c, b, &buffers.frame)
}

// maxSectors bounds the size of a segment: positions are 32-bit.
const maxSectors = (1<<32 - 1) / payloadSize

// scan finds the frames in the bytes of a segment. It ends at the first frame that is not
// complete. Such a frame is what an interrupted write has left, if each of its sectors is as
// before the write or as after it, and if no later write is behind it. Otherwise it is
// damaged.
func (s salt) scan(c *scan, b []byte, buf *[]byte) error {
	c.end = 1
	var start uint32
	for c.end < c.sectors {
		f, ok, err := s.scanFrame(c, b, c.end, buf)
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
		return s.scanLeft(c, b) // the next generation makes all its sectors unused
	}
	c.last = slices.Clone(b[start*sectorSize : c.end*sectorSize])
	seq := uint32(c.frames[len(c.frames)-1].seq)
	for i := c.end; i < c.sectors; i++ {
		st, has := s.state(b[i*sectorSize:][:sectorSize], i, c.gen)
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
func (s salt) scanLeft(c *scan, b []byte) error {
	for i := uint32(1); i < c.sectors; i++ {
		st, has := s.state(b[i*sectorSize:][:sectorSize], i, c.gen)
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
func (s salt) scanFrame(c *scan, b []byte, at uint32, buf *[]byte) (f scanned, ok bool, err error) {
	sector := func(i uint32) (state, uint32) { return s.state(b[i*sectorSize:][:sectorSize], i, c.gen) }
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
