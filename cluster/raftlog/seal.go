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

// sealOf returns the checksum of the fields of an entry that raft reads.
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

// StoreLogs implements raft.LogStore. It adds the checksums to copies of the entries,
// because raft continues to use its own.
func (s *Log) StoreLogs(logs []*raft.Log) error {
	if !s.sealed {
		return s.store.StoreLogs(logs)
	}
	copies := make([]raft.Log, len(logs))
	sealed := make([]*raft.Log, len(logs))
	for i, l := range logs {
		copies[i] = *l
		copies[i].Extensions = sealOf(l)
		sealed[i] = &copies[i]
	}
	return s.store.StoreLogs(sealed)
}

// GetLog implements raft.LogStore. The error wraps ErrDamaged if the entry differs from the
// one that was stored at that index.
func (s *Log) GetLog(index uint64, l *raft.Log) error {
	if err := s.store.GetLog(index, l); err != nil || !s.sealed {
		return err
	}
	seal := l.Extensions
	l.Extensions = nil
	if l.Index != index {
		return fmt.Errorf("entry %d has the index %d in its header: %w", index, l.Index, ErrDamaged)
	}
	if len(seal) > 0 && !bytes.Equal(seal, sealOf(l)) {
		return fmt.Errorf("the checksum of entry %d does not match: %w", index, ErrDamaged)
	}
	return nil
}

// IsMonotonic implements raft.MonotonicLogStore. It reports whether the store below accepts
// no gaps, so that raft must clear the log after a restored state.
func (s *Log) IsMonotonic() bool {
	m, ok := s.store.(raft.MonotonicLogStore)
	return ok && m.IsMonotonic()
}

// readEntries reads every entry once. The log may have a hole: after raft has restored a
// state (Restore), it continues the log at a later index.
func (s *Log) readEntries() error {
	first, err := s.FirstIndex()
	if err != nil {
		return err
	}
	last, err := s.LastIndex()
	if err != nil || last == 0 {
		return err
	}
	for _, end := range []uint64{first, last} { // both must exist
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
