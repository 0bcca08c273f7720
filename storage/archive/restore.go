package archive

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/cenkalti/backoff/v5"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// RestoreNode is the name of the broker in a state that Begin has made, until a cluster adopts
// the state.
const RestoreNode = "restore"

// Origin says how a state becomes the first one of a lineage.
type Origin struct {
	Lineage string // of its own: no other document has it
	// After and Epoch are the highest LSN and epoch of the queue that any client may know. The
	// new lineage begins after both, so that LSNs and fencing tokens continue to grow for
	// clients of the old one.
	After fsm.LSN
	Epoch uint64
	// Pause pauses every type and every schedule.
	Pause bool
}

// Paused lists the names that Begin has paused, without those that were paused before.
type Paused struct {
	Types []string
	Crons []string
}

// Begin makes the state of m the first one of another lineage, without a broker's address and
// without a cluster, so that an empty cluster may adopt it. It does so by one log entry at the
// machine's own time. So no timer expires, leases begin again, and the result is a normal
// state.
//
// With Pause, Begin pauses the types that have jobs or settings, the types that a schedule or
// the callback of an open batch would enqueue, and all schedules. It returns an error if there
// are more types than can have settings. After an error m must not be used.
func Begin(m *fsm.Machine, o Origin) (Paused, error) {
	meta := m.Meta()
	epoch := max(o.Epoch, meta.Epoch) + 1
	entry := &fsmpb.Batch{NowMs: meta.NowMs, Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_RegisterBroker{
		RegisterBroker: &fsmpb.RegisterBroker{Node: RestoreNode, Epoch: epoch, Lineage: o.Lineage},
	}}}}
	var p Paused
	if o.Pause {
		p = toPause(m)
		entry.Mutations = append(entry.Mutations, p.mutations()...)
	}
	data, err := fsm.EncodeEntry(entry)
	if err != nil {
		return p, fmt.Errorf("begin lineage %s: %w", o.Lineage, err)
	}
	if entry, err = fsm.DecodeEntry(data); err != nil {
		return p, fmt.Errorf("begin lineage %s: %w", o.Lineage, err)
	}
	term := max(o.After.Term, meta.LSN().Term) + 1
	for i, res := range m.Apply(meta.LSN().Index+1, term-meta.TermBase, entry) {
		if err := res.Code.Err(); err != nil {
			return p, fmt.Errorf("begin lineage %s: %s: %w", o.Lineage, naming(entry.Mutations[i]), err)
		}
	}
	return p, nil
}

// naming describes the subject of a mutation of Begin.
func naming(m *fsmpb.Mutation) string {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_SetQueue:
		return fmt.Sprintf("pause type %q", op.SetQueue.Name)
	case *fsmpb.Mutation_PauseCron:
		return fmt.Sprintf("pause schedule %q", op.PauseCron.Name)
	}
	return "register the restore as its broker"
}

// toPause returns the types and schedules that are not paused, and the types whose pause
// would end by itself.
func toPause(m *fsm.Machine) Paused {
	v := m.View()
	types := make(map[string]bool)
	for name := range m.Types {
		types[name] = true
	}
	for q := range v.Queues {
		types[q.Name] = true
	}
	var p Paused
	for c := range v.Crons("") {
		types[c.Job.GetType()] = true
		if !c.Paused {
			p.Crons = append(p.Crons, c.Name)
		}
	}
	for b := range v.Batches("") {
		if b.Callback != nil && !b.Called {
			types[b.Callback.GetType()] = true
		}
	}
	maps.DeleteFunc(types, func(name string, _ bool) bool {
		q := v.Queue(name)
		return q != nil && q.Paused && q.Pause.GetUntilMs() == 0
	})
	p.Types = slices.Sorted(maps.Keys(types))
	return p
}

func (p *Paused) mutations() []*fsmpb.Mutation {
	all := make([]*fsmpb.Mutation, 0, len(p.Types)+len(p.Crons))
	for _, name := range p.Types {
		op := &fsmpb.SetQueue{Name: name, Paused: new(true)}
		all = append(all, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetQueue{SetQueue: op}})
	}
	for _, name := range p.Crons {
		op := &fsmpb.PauseCron{Name: name, Paused: true}
		all = append(all, &fsmpb.Mutation{Op: &fsmpb.Mutation_PauseCron{PauseCron: op}})
	}
	return all
}

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
	m, id := c.Meta, rand.Text()
	data := document.Encode(c, document.Header{
		Lineage: m.Lineage, Cluster: m.Cluster, Epoch: m.Epoch, Node: m.BrokerNode, Write: id, Writes: []string{id},
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
