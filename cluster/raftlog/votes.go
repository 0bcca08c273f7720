package raftlog

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"osqueue/internal/durable"
)

// Raft's keys in its stable store.
const (
	keyTerm     = "CurrentTerm"
	keyVoteTerm = "LastVoteTerm"
	keyVote     = "LastVoteCand"
)

// errNotFound is the error for a key without a value. Raft compares its text.
var errNotFound = errors.New("not found")

// notFound reports whether a store returned that there is no such key.
func notFound(err error) bool { return err != nil && err.Error() == errNotFound.Error() }

// votes are raft's votes and terms. All values are in one small file, which each change replaces: a crash leaves
// the old values or the new ones. votes implement raft.StableStore; only one call at a time is allowed.
type votes struct {
	path   string
	lock   *os.File // of the directory of the log
	values map[string][]byte
}

// openVotes locks the log in a directory, and reads the votes; without a file there are none.
func openVotes(dir string) (*votes, error) {
	lock, err := lockDir(dir)
	if err != nil {
		return nil, err
	}
	v := &votes{path: filepath.Join(dir, votesName), lock: lock}
	if err := v.read(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return v, nil
}

func (v *votes) read() error {
	if err := durable.RemoveLeftovers(v.path); err != nil {
		return err
	}
	data, err := os.ReadFile(v.path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	values := make(map[string][]byte)
	if err == nil {
		sum, text, _ := bytes.Cut(data, []byte("\n"))
		if string(sum) != checksum(text) || json.Unmarshal(text, &values) != nil {
			return fmt.Errorf("the checksum of %s does not match: %w", v.path, ErrDamaged)
		}
	}
	return v.write(values) // the file may be in the page cache only: its fsync may have failed
}

// write makes values those of the file.
func (v *votes) write(values map[string][]byte) error {
	text, err := json.Marshal(values)
	if err == nil {
		err = durable.WriteFile(v.path, checksum(text)+"\n"+string(text))
	}
	if err == nil {
		v.values = values
	}
	return err
}

func checksum(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Set implements raft.StableStore.
func (v *votes) Set(key, val []byte) error {
	values := maps.Clone(v.values)
	values[string(key)] = bytes.Clone(val)
	return v.write(values)
}

// Get implements raft.StableStore.
func (v *votes) Get(key []byte) ([]byte, error) {
	val, ok := v.values[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return val, nil
}

// SetUint64 implements raft.StableStore. A number is a value of 8 bytes.
func (v *votes) SetUint64(key []byte, val uint64) error {
	return v.Set(key, binary.BigEndian.AppendUint64(nil, val))
}

// GetUint64 implements raft.StableStore.
func (v *votes) GetUint64(key []byte) (uint64, error) {
	val, err := v.Get(key)
	switch {
	case err != nil:
		return 0, err
	case len(val) != 8:
		return 0, fmt.Errorf("%s has %d bytes: %w", key, len(val), ErrDamaged)
	}
	return binary.BigEndian.Uint64(val), nil
}
