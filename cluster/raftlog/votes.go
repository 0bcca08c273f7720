package raftlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
)

// stableStore is a raft-boltdb, of which only the part for votes and terms is used.
type stableStore interface {
	Set(key, val []byte) error
	Get(key []byte) ([]byte, error)
	io.Closer
}

// castagnoli is the polynomial of CRC-32C (RFC 3720), for which processors have an
// instruction.
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

const sumSize = 4

// Raft's keys in its stable store.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVote     = "LastVoteCand"
)

// sealKey returns the key of the checksums of a value. The checksums cover the value to be
// written and the current one: if a node dies between the two writes, one of them matches.
func sealKey(key []byte) []byte { return append([]byte("seal/"), key...) }

func sumOf(key, val []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, val)
}

// notFound reports whether the store below returned that there is no such key, which raft compares by
// its text, too.
func notFound(err error) bool { return err != nil && err.Error() == "not found" }

// votes are raft's votes and terms with their checksums. They implement raft.StableStore. A value
// and its checksum change one after the other, so only one call at a time is allowed.
type votes struct{ stable stableStore }

// Set implements raft.StableStore.
func (s votes) Set(key, val []byte) error {
	old, err := s.Get(key)
	if err != nil && !notFound(err) {
		return err
	}
	if err := s.seal(key, val, old); err != nil {
		return err
	}
	return s.stable.Set(key, val)
}

// Get implements raft.StableStore. The error wraps ErrDamaged if the value does not match
// its checksum, or if a value that was set is missing.
func (s votes) Get(key []byte) ([]byte, error) {
	val, err := s.stable.Get(key)
	if err != nil && !notFound(err) {
		return nil, err
	}
	return val, cmp.Or(s.check(key, val), err)
}

// SetUint64 implements raft.StableStore. A number is a value of 8 bytes, as raft-boltdb writes it.
func (s votes) SetUint64(key []byte, val uint64) error { return s.Set(key, number(val)) }

// GetUint64 implements raft.StableStore. The error wraps ErrDamaged if the number does not
// match its checksum.
func (s votes) GetUint64(key []byte) (uint64, error) {
	val, err := s.Get(key)
	switch {
	case err != nil:
		return 0, err
	case len(val) != 8:
		return 0, fmt.Errorf("%s has %d bytes: %w", key, len(val), ErrDamaged)
	}
	return binary.BigEndian.Uint64(val), nil
}

func number(val uint64) []byte { return binary.BigEndian.AppendUint64(nil, val) }

func (s votes) seal(key, val, old []byte) error {
	sums := binary.LittleEndian.AppendUint32(nil, sumOf(key, val))
	sums = binary.LittleEndian.AppendUint32(sums, sumOf(key, old))
	return s.stable.Set(sealKey(key), sums)
}

func (s votes) check(key, val []byte) error {
	sums, err := s.stable.Get(sealKey(key))
	if err != nil && !notFound(err) {
		return err
	}
	if len(sums) == 0 && len(bytes.Trim(val, "\x00")) == 0 {
		return nil // never set
	}
	sum := sumOf(key, val)
	for ; len(sums) >= sumSize; sums = sums[sumSize:] {
		if binary.LittleEndian.Uint32(sums) == sum {
			return nil
		}
	}
	return fmt.Errorf("the checksum of %s does not match: %w", key, ErrDamaged)
}

// readVotes reads the votes and terms once.
func (s votes) readVotes() error {
	_, term := s.GetUint64([]byte(keyTerm))
	_, voteTerm := s.GetUint64([]byte(keyVoteTerm))
	_, vote := s.Get([]byte(keyVote))
	for _, err := range []error{term, voteTerm, vote} {
		if err != nil && !notFound(err) {
			return err
		}
	}
	return nil
}
