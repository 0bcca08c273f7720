package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"slices"
	"time"

	"github.com/hashicorp/raft"
)

// A frame is the content of one write: entries with consecutive indexes, or the removal of
// the log's end. DESIGN.md has the layout.
const (
	frameMagic  = 0x6c71736f // "osql"
	frameHeader = 32
	entryHeader = 33

	kindEntries  = 1
	kindTruncate = 2
)

// entryMax bounds the data and the extensions of one entry in bytes, so that every position
// in a segment fits into 32 bits.
const entryMax = 1 << 30

var errBadFrame = errors.New("the sector has a valid checksum, but not the part of a write that belongs there")

// frame is the header of a frame.
type frame struct {
	kind   uint32
	count  uint32 // of entries
	length uint32 // in bytes of content, header included
	first  uint64 // index of the first entry, or of the first removed one
	seq    uint64 // each write of a log has the next number
}

func (f frame) sectors() uint32 { return uint32(sectorsOf(int(f.length))) }

func (f frame) encode(b []byte) {
	le := binary.LittleEndian
	le.PutUint32(b[0:], frameMagic)
	le.PutUint32(b[4:], f.kind)
	le.PutUint32(b[8:], f.count)
	le.PutUint32(b[12:], f.length)
	le.PutUint64(b[16:], f.first)
	le.PutUint64(b[24:], f.seq)
}

// decodeFrame decodes the header of a frame, which is in the first bytes of b.
func decodeFrame(b []byte) (f frame, err error) {
	le := binary.LittleEndian
	f = frame{kind: le.Uint32(b[4:]), count: le.Uint32(b[8:]), length: le.Uint32(b[12:]), first: le.Uint64(b[16:]), seq: le.Uint64(b[24:])}
	known := f.kind == kindEntries && f.count > 0 || f.kind == kindTruncate && f.count == 0
	if le.Uint32(b) != frameMagic || !known || f.length < frameHeader || f.first == 0 || f.seq == 0 ||
		f.first+uint64(f.count) < f.first || uint64(f.count)*entryHeader > uint64(f.length-frameHeader) {
		return f, errBadFrame
	}
	return f, nil
}

// place is where an entry is in its segment, in bytes of content from the first sector on.
type place struct{ pos, length uint32 }

func sizeOf(l *raft.Log) int { return entryHeader + len(l.Data) + len(l.Extensions) }

// builder lays out frames in sectors. Its buffer is used again.
type builder struct{ buf []byte }

// bufferMax bounds the buffer that is kept for the next frame.
const bufferMax = 4 << 20

// build returns the bytes of a frame from sector at on, in a file of the given number of
// sectors, and the places of its entries. The bytes are valid until the next call.
func (b *builder) build(s salt, gen, at, sectors uint32, f frame, logs []*raft.Log) ([]byte, []place) {
	size := pad(at, f.sectors(), sectors)
	if cap(b.buf) < size || cap(b.buf) > bufferMax {
		b.buf = make([]byte, size)
	}
	w := sectorWriter{buf: b.buf[:size]}
	clear(w.buf)
	var head [max(frameHeader, entryHeader)]byte
	f.encode(head[:])
	w.write(head[:frameHeader])
	places := make([]place, len(logs))
	for i, l := range logs {
		places[i] = place{pos: at*payloadSize + uint32(w.pos), length: uint32(sizeOf(l))}
		encodeEntry(head[:], l)
		w.write(head[:entryHeader])
		w.write(l.Data)
		w.write(l.Extensions)
	}
	for i := range f.sectors() {
		s.seal(w.buf[i*sectorSize:][:sectorSize], at+i, gen, f.seq)
	}
	return w.buf, places
}

// sectorWriter writes content into sectors, around their trailers.
type sectorWriter struct {
	buf []byte
	pos int // in bytes of content
}

func (w *sectorWriter) write(p []byte) {
	for len(p) > 0 {
		in := w.pos % payloadSize
		n := copy(w.buf[w.pos/payloadSize*sectorSize+in:][:payloadSize-in], p)
		p, w.pos = p[n:], w.pos+n
	}
}

// joinPayloads moves the contents of the sectors in b together, and returns them. It changes b.
func joinPayloads(b []byte) []byte {
	n := 0
	for at := 0; at+sectorSize <= len(b); at += sectorSize {
		n += copy(b[n:], b[at:at+payloadSize])
	}
	return b[:n]
}

func encodeEntry(b []byte, l *raft.Log) {
	le := binary.LittleEndian
	le.PutUint64(b[0:], l.Index)
	le.PutUint64(b[8:], l.Term)
	at := uint64(0)
	if !l.AppendedAt.IsZero() {
		at = uint64(l.AppendedAt.UnixNano())
	}
	le.PutUint64(b[16:], at)
	le.PutUint32(b[24:], uint32(len(l.Data)))
	le.PutUint32(b[28:], uint32(len(l.Extensions)))
	b[32] = byte(l.Type)
}

// decodeEntry decodes the entry at the start of b, and returns its size. The entry refers
// to b.
func decodeEntry(b []byte, l *raft.Log) (size int, err error) {
	if len(b) < entryHeader {
		return 0, errBadFrame
	}
	le := binary.LittleEndian
	data, ext := uint64(le.Uint32(b[24:])), uint64(le.Uint32(b[28:]))
	end := entryHeader + data + ext
	if end > uint64(len(b)) {
		return 0, errBadFrame
	}
	*l = raft.Log{Index: le.Uint64(b[0:]), Term: le.Uint64(b[8:]), Type: raft.LogType(b[32])}
	if at := int64(le.Uint64(b[16:])); at != 0 {
		l.AppendedAt = time.Unix(0, at)
	}
	if data > 0 {
		l.Data = b[entryHeader : entryHeader+data : entryHeader+data]
	}
	if ext > 0 {
		l.Extensions = b[entryHeader+data : end : end]
	}
	return int(end), nil
}

// decodeFrameEntries returns the places of the entries of a frame. content is the content
// of the frame's sectors, of which the first is sector at.
func decodeFrameEntries(f frame, content []byte, at uint32) ([]place, error) {
	places := make([]place, 0, f.count)
	pos := uint32(frameHeader)
	for i := range uint64(f.count) {
		var l raft.Log
		n, err := decodeEntry(content[pos:f.length], &l)
		if err != nil {
			return nil, err
		}
		if l.Index != f.first+i {
			return nil, fmt.Errorf("entry %d has the index %d in its header", f.first+i, l.Index)
		}
		places = append(places, place{pos: at*payloadSize + pos, length: uint32(n)})
		pos += uint32(n)
	}
	if pos != f.length {
		return nil, errBadFrame
	}
	return slices.Clip(places), nil
}

// A disk writes a sector as a whole or not at all, so every sector has its own checksum.
// After a power cut, a sector of an interrupted write has either its old content or its
// new content; a sector with neither is damaged.
const (
	sectorSize  = 512
	trailerSize = 12                       // generation, sequence number, checksum; 4 bytes each
	payloadSize = sectorSize - trailerSize // bytes of content in a sector
	blockSize   = 4096                     // of the page cache; see pad
)

// salt is the start value of the checksums of one log.
type salt uint32

func saltOf(id uint64) salt {
	return salt(crc32.Checksum(binary.LittleEndian.AppendUint64(nil, id), castagnoli))
}

func (s salt) sum(sector []byte, number uint32) uint32 {
	var n [4]byte
	binary.LittleEndian.PutUint32(n[:], number)
	return crc32.Update(crc32.Update(uint32(s), castagnoli, n[:]), castagnoli, sector[:sectorSize-4])
}

// seal writes the trailer of a sector. number is its position in the file, in sectors.
func (s salt) seal(sector []byte, number, gen uint32, seq uint64) {
	binary.LittleEndian.PutUint32(sector[payloadSize:], gen)
	binary.LittleEndian.PutUint32(sector[payloadSize+4:], uint32(seq))
	binary.LittleEndian.PutUint32(sector[sectorSize-4:], s.sum(sector, number))
}

// state is the kind of content of a sector.
type state int

const (
	unused  state = iota // zeros, or content of an earlier generation
	current              // content of this generation
	damaged              // neither
)

// state returns the state of a sector in a segment of the generation gen, and the low bits
// of the sequence number if it is current.
func (s salt) state(sector []byte, number, gen uint32) (state, uint32) {
	has := binary.LittleEndian.Uint32(sector[payloadSize:])
	switch {
	case has == 0 && allZero(sector):
		return unused, 0
	case has > gen || binary.LittleEndian.Uint32(sector[sectorSize-4:]) != s.sum(sector, number):
		return damaged, 0
	case has < gen:
		return unused, 0
	}
	return current, binary.LittleEndian.Uint32(sector[payloadSize+4:])
}

var zeroSector [sectorSize]byte

func allZero(sector []byte) bool { return bytes.Equal(sector, zeroSector[:]) }

// sectorsOf returns how many sectors n bytes of content take.
func sectorsOf(n int) int { return (n + payloadSize - 1) / payloadSize }

// pad returns the size of a write of n sectors from sector at on. The kernel writes whole
// blocks, and reads a block from the disk before it changes only a part of it. So a write
// continues with zeros to the end of its last block, within a file of the given number of
// sectors.
func pad(at, n, sectors uint32) int {
	const perBlock = blockSize / sectorSize
	end := (at + n + perBlock - 1) / perBlock * perBlock
	return int(min(end, sectors)-at) * sectorSize
}

const (
	version      = 1
	segmentMagic = 0x31677371_6f617266 // "fraoqsg1"
	metaMagic    = 0x31746d71_6f617266 // "fraoqmt1"

	metaName = "meta"

	segmentExt  = ".seg"
	metaSize    = 2 * blockSize // two slots, each at the start of a block
	metaPayload = 48
)

// header is the content of the first sector of a segment.
type header struct {
	log  uint64 // id of the log
	size int64  // of the file in bytes
	gen  uint32
}

func (h header) sector() []byte {
	b := make([]byte, sectorSize)
	le := binary.LittleEndian
	le.PutUint64(b[0:], segmentMagic)
	le.PutUint32(b[8:], version)
	le.PutUint64(b[16:], h.log)
	le.PutUint64(b[24:], uint64(h.size))
	saltOf(h.log).seal(b, 0, h.gen, 0)
	return b
}

// decodeHeader decodes the first sector of a segment of the log id.
func decodeHeader(b []byte, id uint64) (h header, err error) {
	le := binary.LittleEndian
	h = header{log: le.Uint64(b[16:]), size: int64(le.Uint64(b[24:])), gen: le.Uint32(b[payloadSize:])}
	switch {
	case le.Uint64(b) != segmentMagic || le.Uint32(b[sectorSize-4:]) != saltOf(h.log).sum(b, 0):
		return h, errors.New("checksum mismatch of the header")
	case le.Uint32(b[8:]) != version:
		return h, fmt.Errorf("version %d; this release reads only version %d", le.Uint32(b[8:]), version)
	case h.log != id:
		return h, errors.New("the file belongs to another log")
	case h.size < 2*sectorSize || h.size%sectorSize != 0 || h.gen == 0:
		return h, errors.New("the header is not valid")
	}
	return h, nil
}

// meta is the record of where the log starts. It is in the two slots of the file "meta",
// which are written in turn.
type meta struct {
	log   uint64 // id of the log
	n     uint64 // number of this record; the higher one is valid
	start uint64 // sequence number of the first frame that counts
	low   uint64 // first index of the log after frame asOf; 0: the log was empty
	asOf  uint64 // sequence number of a durable frame
}

// slot returns the offset of the record in the file.
func (m meta) slot() int64 { return int64(m.n%2) * blockSize }

func (m meta) sector() []byte {
	b := make([]byte, sectorSize)
	le := binary.LittleEndian
	le.PutUint64(b[0:], metaMagic)
	for i, v := range []uint64{m.log, m.n, m.start, m.low, m.asOf} {
		le.PutUint64(b[8+8*i:], v)
	}
	saltOf(m.log).seal(b, uint32(m.n%2), version, m.n)
	return b
}

// decodeMeta decodes one slot. The record has number 0 if the slot was never written.
func decodeMeta(b []byte, slot uint32) (m meta, err error) {
	if allZero(b) {
		return m, nil
	}
	le := binary.LittleEndian
	for i, v := range []*uint64{&m.log, &m.n, &m.start, &m.low, &m.asOf} {
		*v = le.Uint64(b[8+8*i:])
	}
	if le.Uint64(b) != metaMagic || le.Uint32(b[sectorSize-4:]) != saltOf(m.log).sum(b, slot) || m.n == 0 || m.n%2 != uint64(slot) {
		return m, errors.New("checksum mismatch of a slot")
	}
	if v := le.Uint32(b[payloadSize:]); v != version {
		return m, fmt.Errorf("version %d; this release reads only version %d", v, version)
	}
	return m, nil
}

// readMeta returns the newest record of the meta file.
func readMeta(f File) (meta, error) {
	var b [metaSize]byte
	if size, err := f.Size(); err != nil || size != metaSize {
		return meta{}, errors.Join(fmt.Errorf("the file has %d bytes; expected %d", size, metaSize), err)
	}
	if _, err := f.ReadAt(b[:], 0); err != nil {
		return meta{}, err
	}
	even, errEven := decodeMeta(b[:sectorSize], 0)
	odd, errOdd := decodeMeta(b[blockSize:][:sectorSize], 1)
	if err := errors.Join(errEven, errOdd); err != nil {
		return meta{}, err
	}
	newest, other := even, odd
	if odd.n > even.n {
		newest, other = odd, even
	}
	if newest.n == 0 || newest.n > 1 && (other.n+1 != newest.n || other.log != newest.log) {
		return meta{}, errors.New("a slot is missing")
	}
	return newest, nil
}
