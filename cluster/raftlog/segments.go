package raftlog

import (
	"errors"
	"fmt"
	"slices"

	"github.com/hashicorp/raft"
)

// segment is one file in one generation. A file that is used again is another segment.
type segment struct {
	name    string
	file    File
	gen     uint32
	sectors uint32 // size of the file

	unnamed bool // it gets its name when its entry is in it

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

// read reads one entry.
func (s *segment) read(salt salt, p place, index uint64, e *raft.Log) error {
	at, end := p.pos/payloadSize, (p.pos+p.length-1)/payloadSize
	b := make([]byte, (end-at+1)*sectorSize)
	if _, err := s.file.ReadAt(b, int64(at)*sectorSize); err != nil {
		return err
	}
	for i := at; i <= end; i++ {
		if st, _ := salt.state(b[(i-at)*sectorSize:][:sectorSize], i, s.gen); st != current {
			return fmt.Errorf("the checksum of sector %d does not match: %w", i, ErrDamaged)
		}
	}
	b = joinPayloads(b)[p.pos-at*payloadSize:]
	if _, err := decodeEntry(b[:p.length], e); err != nil || e.Index != index {
		return fmt.Errorf("the segment has entry %d in its place: %w", e.Index, ErrDamaged)
	}
	return nil
}

// segments is the state of the files of a log: where each entry is. After recover, Log.mu guards it, and its
// methods do not use the disk.
//
//	released -- the record in meta is durable, a new generation is in the header --> spares
//	spares   -- an append takes one and writes its first frame --> live
//	live     -- no entry of it counts --> released
type segments struct {
	id   uint64
	salt salt
	meta File

	live        []*segment // with frames, in the order of their sequence numbers
	released    []*segment // live ones given up, and files that had no frame at the start
	spares      []*segment // empty, with a durable header
	first, next uint64     // indexes of the first entry and behind the last one; equal: no entries
	seq         uint64     // of the last durable frame
	gen         uint32     // the highest one
	number      uint64     // of the newest file
	record      meta       // the durable one
}

// close closes the files.
func (s *segments) close() error {
	var errs []error
	if s.meta != nil {
		errs = append(errs, s.meta.Close())
	}
	for _, list := range [][]*segment{s.live, s.released, s.spares} {
		for _, s := range list {
			errs = append(errs, s.file.Close())
		}
	}
	s.meta, s.live, s.released, s.spares = nil, nil, nil, nil
	return errors.Join(errs...)
}

// last returns the index of the last entry; 0: there is none.
func (s *segments) last() uint64 {
	if s.first == s.next {
		return 0
	}
	return s.next - 1
}

// find returns the segment and the place of an entry.
func (s *segments) find(index uint64) (*segment, place, bool) {
	if index < s.first || index >= s.next {
		return nil, place{}, false
	}
	for _, c := range slices.Backward(s.live) {
		if last, ok := c.last(); ok && index >= c.first && index <= last {
			return c, c.places[index-c.first], true
		}
	}
	return nil, place{}, false
}

// check returns an error unless entries may be appended. Entries whose indexes do not follow the last one
// replace the log: raft writes them only if a restored state contains everything before.
func (s *segments) check(logs []*raft.Log) error {
	if s.first != s.next && logs[0].Index < s.next {
		return fmt.Errorf("entry %d exists already: the last entry is %d", logs[0].Index, s.next-1)
	}
	for i, e := range logs {
		switch {
		case e.Index == 0 || e.Index != logs[0].Index+uint64(i):
			return fmt.Errorf("entry %d follows entry %d: the indexes must be consecutive", e.Index, logs[max(i, 1)-1].Index)
		case len(e.Data) > entryMax || len(e.Extensions) > entryMax-len(e.Data):
			return fmt.Errorf("entry %d is larger than %d bytes", e.Index, entryMax)
		}
	}
	return nil
}

// apply changes the state by a frame that is durable in segment c.
func (s *segments) apply(c *segment, f frame, places []place) {
	if c.firstSeq == 0 {
		c.firstSeq = f.seq
		s.live = append(s.live, c)
	}
	c.lastSeq, c.end = f.seq, c.end+f.sectors()
	s.seq = f.seq
	switch {
	case f.kind == kindTruncate:
		s.cut(f.first)
		return
	case f.first != s.next: // raft has restored a state
		s.cut(0)
		s.first, s.next = f.first, f.first
	}
	if len(c.places) == 0 {
		c.first = f.first
	}
	c.places = append(c.places, places...)
	s.next += uint64(f.count)
}

// cut removes the entries from an index on.
func (s *segments) cut(from uint64) {
	s.next = max(s.first, min(s.next, from))
	for _, c := range s.live {
		switch last, ok := c.last(); {
		case s.next == s.first:
			c.places = nil
		case ok && last >= s.next:
			c.places = c.places[:max(c.first, s.next)-c.first]
		}
	}
}

// cutStart removes a range that does not contain the end of the log. done is false if it does.
func (s *segments) cutStart(from, to uint64) (done bool, err error) {
	switch {
	case from > to || s.first == s.next || to < s.first || from >= s.next:
		return true, nil
	case to >= s.next-1:
		return false, nil
	case from > s.first:
		return false, fmt.Errorf("cannot delete the entries %d to %d: they are inside the log from %d to %d", from, to, s.first, s.next-1)
	}
	s.first = to + 1
	return true, nil
}

// release gives up the first segments if none of their entries counts. It reports whether the start of the
// log differs from the record.
func (s *segments) release() (due bool) {
	for len(s.live) > 1 {
		c := s.live[0]
		if last, ok := c.last(); ok && last >= s.first {
			break
		}
		c.places = nil
		s.released = append(s.released, c)
		s.live[0] = nil
		s.live = s.live[1:]
	}
	start, low := s.start()
	return start != s.record.start || low != s.record.low
}

// start returns the sequence number of the first frame that counts, and the first index; 0:
// there are no entries.
func (s *segments) start() (seq, low uint64) {
	seq = s.seq + 1
	if len(s.live) > 0 {
		seq = s.live[0].firstSeq
	}
	if s.first != s.next {
		low = s.first
	}
	return seq, low
}

// inUse reports whether the last segment has so many bytes that the next one is to be prepared. A node that
// writes next to nothing keeps one segment.
func (s *segments) inUse(bytes int64) bool {
	n := len(s.live)
	return n > 0 && int64(s.live[n-1].end)*sectorSize >= bytes
}

// add returns a new segment that has no file yet.
func (s *segments) add(bytes int64) *segment {
	s.gen++
	s.number++
	return &segment{name: fmt.Sprintf("%08d%s", s.number, segmentExt), gen: s.gen, sectors: uint32(bytes / sectorSize), end: 1}
}

// header returns the first sector of a segment.
func (s *segments) header(c *segment) []byte {
	return header{log: s.id, size: int64(c.sectors) * sectorSize, gen: c.gen}.sector()
}
