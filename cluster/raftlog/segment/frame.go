package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
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
