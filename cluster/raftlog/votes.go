package raftlog

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

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

// notFound reports whether a disk returned that there is no such key, which raft compares by its text, too.
func notFound(err error) bool { return err != nil && err.Error() == "not found" }

// votes are raft's votes and terms on a disk, with their checksums. A value and its checksum change one
// after the other, so only one call at a time is allowed.
type votes struct{ disk Disk }

// set changes a value.
func (v votes) set(key, val []byte) error {
	old, err := v.get(key)
	if err != nil && !notFound(err) {
		return err
	}
	if err := v.seal(key, val, old); err != nil {
		return err
	}
	return v.disk.Set(key, val)
}

// get returns a value. The error wraps ErrDamaged if the value does not match its checksum, or if a
// value that was set is missing.
func (v votes) get(key []byte) ([]byte, error) {
	val, err := v.disk.Get(key)
	if err != nil && !notFound(err) {
		return nil, err
	}
	return val, cmp.Or(v.check(key, val), err)
}

// number returns the value of a number, as raft-boltdb writes it.
func number(val uint64) []byte { return binary.BigEndian.AppendUint64(nil, val) }

func toNumber(key, val []byte) (uint64, error) {
	if len(val) != 8 {
		return 0, fmt.Errorf("%s has %d bytes: %w", key, len(val), ErrDamaged)
	}
	return binary.BigEndian.Uint64(val), nil
}

func (v votes) seal(key, val, old []byte) error {
	sums := binary.LittleEndian.AppendUint32(nil, sumOf(key, val))
	sums = binary.LittleEndian.AppendUint32(sums, sumOf(key, old))
	return v.disk.Set(sealKey(key), sums)
}

func (v votes) check(key, val []byte) error {
	sums, err := v.disk.Get(sealKey(key))
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

// checkAll reads the votes and terms once.
func (v votes) checkAll() error {
	for _, key := range []string{keyTerm, keyVoteTerm, keyVote} {
		val, err := v.get([]byte(key))
		if err == nil && key != keyVote {
			_, err = toNumber([]byte(key), val)
		}
		if err != nil && !notFound(err) {
			return err
		}
	}
	return nil
}
