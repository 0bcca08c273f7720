package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// ErrMoved is wrapped when another writer has created, changed or removed the document since it
// was read.
var ErrMoved = errors.New("another program changed the document at the same time")

// Beginning is a state, made by Begin, that becomes a document.
type Beginning struct {
	State *fsm.View
	NowMs int64 // wall clock at the write, for people; no broker sends a heartbeat yet
}

// WriteBeginning writes b as the document at key, in place of version over ("": there must be
// no document), after a checkpoint. When it
// returns nil the document is certain to be in the bucket. Otherwise the error wraps ErrMoved,
// or ctx ended, or the store refused the write; then the document is unchanged, unless an
// answer was lost, and other written objects are garbage.
func WriteBeginning(ctx context.Context, bucket storage.Bucket, key string, over storage.Version, b Beginning) (*document.Content, error) {
	c, err := contentOf(ctx, bucket, b.State.Meta().Lineage, fsm.LSN{}, b.State)
	if err != nil {
		return nil, fmt.Errorf("write %q: %w", key, err)
	}
	m, id := &c.Meta, rand.Text()
	data := document.Encode(c, document.Header{
		Lineage: m.Lineage, Cluster: m.Cluster, Epoch: m.Broker.Epoch, Node: m.Broker.Node, Write: id, Writes: []string{id},
	}, "", b.NowMs)
	if err := putRoot(ctx, bucket, key, over, data, id); err != nil {
		return nil, fmt.Errorf("write %q: %w", key, err)
	}
	return c, nil
}

// contentOf writes a checkpoint of a state, and returns the content that consists of it.
func contentOf(ctx context.Context, bucket storage.Bucket, lineage string, prev fsm.LSN, v *fsm.View) (*document.Content, error) {
	checkpoint, err := WriteCheckpoint(ctx, bucket, lineage, prev, v)
	if err != nil {
		return nil, err
	}
	return &document.Content{
		Archive: &document.Archive{Checkpoint: checkpoint, Tail: NewTail(checkpoint.LSN).Frame()},
		Meta:    v.Meta(), Counts: v.Counts(), Jobs: v, ViewMax: document.ViewMax,
	}, nil
}

// putRoot replaces version over of the document by data, which carries the write id, and tries
// until the result is known.
func putRoot(ctx context.Context, bucket storage.Bucket, key string, over storage.Version, data []byte, id string) error {
	return blob.Retry(ctx, blob.Forever, func() error { return putRootOnce(ctx, bucket, key, over, data, id) })
}

// putRootOnce makes one attempt. After an error that is not permanent the result is unknown.
func putRootOnce(ctx context.Context, bucket storage.Bucket, key string, over storage.Version, data []byte, id string) error {
	var w storage.Write
	if over == "" {
		w = bucket.PutIfAbsent(ctx, key, data)
	} else {
		w = bucket.PutIfMatch(ctx, key, data, over)
	}
	if w.Outcome == storage.Committed {
		return nil
	}
	// Read the document after any answer: an earlier attempt may have been applied.
	o, err := bucket.Get(ctx, key)
	absent := errors.Is(err, storage.ErrNotFound)
	switch {
	case err != nil && !absent:
		return errors.Join(w.Err, err)
	case absent && over == "", !absent && o.Version == over:
		return errors.Join(errors.New("the outcome of the write of the document is unknown"), w.Err)
	case bytes.Equal(o.Data, data), succeeds(o.Data, id):
		return nil
	}
	return backoff.Permanent(ErrMoved)
}

// succeeds reports whether a document is the result of the write with that id.
func succeeds(data []byte, id string) bool {
	doc, err := document.Decode(data)
	return err == nil && doc.Header != nil && slices.Contains(doc.Header.Writes, id)
}
