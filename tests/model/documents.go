package model

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// State is the state of the queue in one version of queue.json.
type State struct {
	Header document.Header
	Hash   [sha256.Size]byte // of the machine's state
}

// Read reads versions of queue.json. Each must be a whole state: what large ones
// name is read from the bucket, where it must still be.
func Read(ctx context.Context, bucket storage.Bucket, versions [][]byte) ([]State, error) {
	states := make([]State, 0, len(versions))
	kept := &keptObjects{Bucket: bucket, objects: make(map[string]storage.Object)}
	for i, data := range versions {
		doc, err := document.Decode(data)
		if err == nil && doc.Header == nil {
			err = errors.New("it has no header")
		}
		if err != nil {
			return nil, fmt.Errorf("version %d of %d: %w", i+1, len(versions), err)
		}
		m, err := archive.Machine(ctx, kept, doc)
		if err != nil {
			return nil, fmt.Errorf("version %d of %d: %w", i+1, len(versions), err)
		}
		states = append(states, State{Header: *doc.Header, Hash: m.View().Hash()})
	}
	return states, nil
}

// keptObjects is a bucket of which every object is read once: what documents name never
// changes.
type keptObjects struct {
	storage.Bucket
	objects map[string]storage.Object
}

// Get implements storage.Bucket.
func (k *keptObjects) Get(ctx context.Context, key string) (storage.Object, error) {
	if o, ok := k.objects[key]; ok {
		return o, nil
	}
	o, err := k.Bucket.Get(ctx, key)
	if err == nil {
		k.objects[key] = o
	}
	return o, err
}

// Documents checks all accepted versions of queue.json, in the order in which
// the bucket accepted them: neither LSN nor epoch ever goes back, and no LSN
// stands for two states.
func Documents(states []State) error {
	if len(states) == 0 {
		return errors.New("there is no version to check")
	}
	for i := 1; i < len(states); i++ {
		if err := follows(states[i-1], states[i]); err != nil {
			return fmt.Errorf("version %d of %d: %w", i+1, len(states), err)
		}
	}
	return nil
}

func follows(before, after State) error {
	last, next := &before.Header, &after.Header
	switch {
	case next.LSN().Compare(last.LSN()) < 0:
		return fmt.Errorf("the LSN goes back from %s to %s", last.LSN(), next.LSN())
	case next.Epoch < last.Epoch:
		return fmt.Errorf("the epoch goes back from %d to %d", last.Epoch, next.Epoch)
	case next.Epoch == last.Epoch && next.Node != last.Node:
		return fmt.Errorf("nodes %s and %s both wrote with epoch %d", last.Node, next.Node, next.Epoch)
	case next.Lineage != last.Lineage:
		return fmt.Errorf("the lineage changes from %s to %s", last.Lineage, next.Lineage)
	case next.LSN() == last.LSN() && before.Hash != after.Hash:
		return fmt.Errorf("it and the one before are two states of LSN %s", next.LSN())
	}
	return nil
}

// Entry is a command of the raft log.
type Entry struct {
	Index, Term uint64
	Data        []byte
}

// Log holds the entries that one node applied.
type Log struct {
	Snapshot []byte // the state before the first entry; nil: an empty machine
	Entries  []Entry
}

func (l Log) machine() (*fsm.Machine, error) {
	if l.Snapshot == nil {
		return fsm.New(), nil
	}
	m, err := fsm.Decode(bytes.NewReader(l.Snapshot))
	if err != nil {
		return nil, fmt.Errorf("the log's snapshot: %w", err)
	}
	return m, nil
}

// Replay checks that every version is the machine's state at its LSN: it
// applies the log from its beginning and compares hashes.
func Replay(log Log, states []State) (compared int, err error) {
	want := make(map[fsm.LSN][][sha256.Size]byte)
	for _, s := range states {
		want[s.Header.LSN()] = append(want[s.Header.LSN()], s.Hash)
	}
	m, err := log.machine()
	if err != nil {
		return 0, err
	}
	check := func() error {
		lsn := m.Meta().LSN
		for _, h := range want[lsn] {
			if h != m.View().Hash() {
				return fmt.Errorf("the document at LSN %s is not the machine's state there", lsn)
			}
			compared++
		}
		delete(want, lsn)
		return nil
	}
	if log.Snapshot == nil {
		// The first document of all has a lineage already, which the empty machine
		// gets by the first entry.
		compared += len(want[fsm.LSN{}])
		delete(want, fsm.LSN{})
	}
	if err := check(); err != nil {
		return compared, err
	}
	for _, e := range log.Entries {
		batch, err := fsm.DecodeEntry(e.Data)
		if err != nil {
			return compared, fmt.Errorf("log entry %d: %w", e.Index, err)
		}
		m.Apply(e.Index, e.Term, batch)
		if err := check(); err != nil {
			return compared, err
		}
	}
	for lsn := range want {
		return compared, fmt.Errorf("a document claims LSN %s, which the log does not have", lsn)
	}
	return compared, nil
}
