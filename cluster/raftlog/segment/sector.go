package segment

import (
	"bytes"
	"encoding/binary"
	"hash/crc32"
)

// A disk writes a sector as a whole or not at all, so every sector has its own checksum.
// After a power cut, a sector of an interrupted write has either its old content or its
// new content; a sector with neither is damaged.
const (
	sectorSize  = 512
	trailerSize = 12                       // generation, sequence number, checksum; 4 bytes each
	payloadSize = sectorSize - trailerSize // bytes of content in a sector
	blockSize   = 4096                     // of the page cache; see pad
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

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
