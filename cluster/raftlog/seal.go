package raftlog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"

	"github.com/hashicorp/raft"
)

// castagnoli is the polynomial of CRC-32C (RFC 3720), for which processors have an
// instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sealSize = 4

// sealOf is the checksum of what raft reads of an entry.
func sealOf(l *raft.Log) []byte {
	var head [8 + 8 + 1]byte
	binary.LittleEndian.PutUint64(head[0:], l.Index)
	binary.LittleEndian.PutUint64(head[8:], l.Term)
	head[16] = byte(l.Type)
	sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, l.Data)
	return binary.LittleEndian.AppendUint32(make([]byte, 0, sealSize), sum)
}

// StoreLog implements raft.LogStore.
func (s *Log) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries are sealed on copies: raft goes on
// using its own.
func (s *Log) StoreLogs(logs []*raft.Log) error {
	copies := make([]raft.Log, len(logs))
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = sealOf(l)
		sealed[i] = &copies[i]
	}
	return s.store.StoreLogs(sealed)
}

// GetLog implements raft.LogStore. An entry that is not the one that was stored at
// that index is ErrDamaged.
func (s *Log) GetLog(index uint64, l *raft.Log) error {
	if err := s.store.GetLog(index, l); err != nil {
		return err
	}
	seal := l.Extensions
	l.Extensions = nil
	if l.Index != index {
		return fmt.Errorf("entry %d says that it is entry %d: %w", index, l.Index, ErrDamaged)
	}
	if len(seal) > 0 && !bytes.Equal(seal, sealOf(l)) {
		return fmt.Errorf("the checksum of entry %d does not match: %w", index, ErrDamaged)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore: raft must know when it has to clear a
// log that takes no gaps.
func (s *Log) IsMonotonic() bool {
	m, ok := s.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// readEntries reads every entry once. There may be a hole: raft leaves one where it was
// given a state from elsewhere (Restore), and begins anew behind it.
func (s *Log) readEntries() error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	for _, end := range []uint64{first, last} { // both are there, or they are not what they say
		if err := s.GetLog(end, new(raft.Log)); err != nil {
			return fmt.Errorf("entry %d, an end of the log from %d to %d: %w: %w", end, first, last, err, ErrDamaged)
		}
	}
	for i := first; i <= last; i++ {
		err := s.GetLog(i, new(raft.Log))
		if err != nil && !errors.Is(err, raft.ErrLogNotFound) {
			return fmt.Errorf("entry %d of %d to %d: %w: %w", i, first, last, err, ErrDamaged)
		}
	}
	return nil
}
