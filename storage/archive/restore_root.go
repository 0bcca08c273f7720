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
	"osqueue/storage/document"
)

// ErrMoved is wrapped when another writer has created, changed or removed the document since it
// was read.
var ErrMoved = errors.New("another program changed the document at the same time")

// Beginning is a state, made by Begin, that becomes a document.
type Beginning struct {
	State     *fsm.View
	InlineMax int   // the state stands in the document itself as long as it takes no more bytes
	NowMs     int64 // wall clock at the write, for people; no broker sends a heartbeat yet
}

// WriteBeginning writes b as the document at key, in place of version over ("": there must be
// no document). If the document needs a checkpoint, WriteBeginning writes that first. When it
// returns nil the document is certain to be in the bucket. Otherwise the error wraps ErrMoved,
// or ctx ended, or the store refused the write; then the document is unchanged, unless an
// answer was lost, and other written objects are garbage.
func WriteBeginning(ctx context.Context, bucket storage.Bucket, key string, over storage.Version, b Beginning) (*document.Content, error) {
	c, err := b.content(ctx, bucket)
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

// content returns the state inline, or writes a checkpoint of it.
func (b *Beginning) content(ctx context.Context, bucket storage.Bucket) (*document.Content, error) {
	c := document.Inline(b.State)
	if b.fits(*c) {
		return c, nil
	}
	checkpoint, err := WriteCheckpoint(ctx, bucket, c.Meta.Lineage, fsm.LSN{}, b.State)
	if err != nil {
		return nil, err
	}
	c.State, c.Archive = nil, &document.Archive{Checkpoint: checkpoint, Tail: NewTail(checkpoint.LSN).Frame()}
	return c, nil
}

// fits reports whether the state is short enough to be inline. It tries to encode the document
// with a placeholder archive, because only then the work is bounded.
func (b *Beginning) fits(c document.Content) bool {
	lsn := b.State.LSN()
	c.InlineMax = b.InlineMax
	c.Archive = &document.Archive{Checkpoint: document.Checkpoint{LSN: lsn}, Tail: NewTail(lsn).Frame()}
	_, large := document.AppendTo(nil, &c, document.Header{}, "", 0)
	return !large
}

// putRoot replaces version over of the document by data, which carries the write id, and tries
// until the result is known.
func putRoot(ctx context.Context, bucket storage.Bucket, key string, over storage.Version, data []byte, id string) error {
	var last error
	_, err := backoff.Retry(ctx, func() (struct{}, error) {
		last = putRootOnce(ctx, bucket, key, over, data, id)
		return struct{}{}, last
	}, backoff.WithBackOff(pauses()), backoff.WithMaxElapsedTime(0))
	if err != nil && ctx.Err() != nil && last != nil && !errors.Is(last, err) {
		err = fmt.Errorf("%w: %w", err, last)
	}
	return err
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
