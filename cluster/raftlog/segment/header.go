package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	version      = 1
	segmentMagic = 0x31677371_6f617266 // "fraoqsg1"
	metaMagic    = 0x31746d71_6f617266 // "fraoqmt1"

	// MetaName is the name of the file that every log has.
	MetaName = "meta"

	segmentExt  = ".seg"
	unfinished  = ".tmp"
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
