package raftlog

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"hash/crc32"
)

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

// notFound reports whether the store below returned that there is no such key. The stores
// share no error value; raft itself compares the text.
func notFound(err error) bool { return err != nil && err.Error() == "not found" }

// Set implements raft.StableStore. It takes a lock, because raft also sets its term from
// the goroutine that handles heartbeats.
func (s *Log) Set(key, val []byte) error {
	s.votes.Lock()
	defer s.votes.Unlock()
	old, err := s.get(key)
	if err != nil && !notFound(err) {
		return err
	}
	if err := s.seal(key, val, old); err != nil {
		return err
	}
	return s.store.Set(key, val)
}

// Get implements raft.StableStore. The error wraps ErrDamaged if the value does not match
// its checksum, or if a value that was set is missing.
func (s *Log) Get(key []byte) ([]byte, error) {
	s.votes.Lock()
	defer s.votes.Unlock()
	return s.get(key)
}

func (s *Log) get(key []byte) ([]byte, error) {
	val, err := s.store.Get(key)
	if err != nil && !notFound(err) {
		return nil, err
	}
	return val, cmp.Or(s.check(key, val), err)
}

// SetUint64 implements raft.StableStore. The stores below write numbers in different forms;
// the checksum always covers the same form.
func (s *Log) SetUint64(key []byte, val uint64) error {
	s.votes.Lock()
	defer s.votes.Unlock()
	old, err := s.getUint64(key)
	if err != nil && !notFound(err) {
		return err
	}
	if err := s.seal(key, number(val), number(old)); err != nil {
		return err
	}
	return s.store.SetUint64(key, val)
}

// GetUint64 implements raft.StableStore. The error wraps ErrDamaged if the number does not
// match its checksum.
func (s *Log) GetUint64(key []byte) (uint64, error) {
	s.votes.Lock()
	defer s.votes.Unlock()
	return s.getUint64(key)
}

func (s *Log) getUint64(key []byte) (uint64, error) {
	val, err := s.store.GetUint64(key)
	if err != nil && !notFound(err) {
		return 0, err
	}
	return val, cmp.Or(s.check(key, number(val)), err)
}

func number(val uint64) []byte { return binary.BigEndian.AppendUint64(nil, val) }

func (s *Log) seal(key, val, old []byte) error {
	sums := binary.LittleEndian.AppendUint32(nil, sumOf(key, val))
	sums = binary.LittleEndian.AppendUint32(sums, sumOf(key, old))
	return s.store.Set(sealKey(key), sums)
}

func (s *Log) check(key, val []byte) error {
	sums, err := s.store.Get(sealKey(key))
	if notFound(err) || err == nil && sums == nil {
		return nil // written by an older version
	}
	if err != nil {
		return err
	}
	sum := sumOf(key, val)
	for ; len(sums) >= sealSize; sums = sums[sealSize:] {
		if binary.LittleEndian.Uint32(sums) == sum {
			return nil
		}
	}
	return fmt.Errorf("the checksum of %s does not match: %w", key, ErrDamaged)
}

// readVotes reads the votes and terms once.
func (s *Log) readVotes() error {
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
