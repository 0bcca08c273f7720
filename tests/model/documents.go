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
