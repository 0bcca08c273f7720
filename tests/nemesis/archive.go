package nemesis

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/storage"
	"osqueue/storage/document"
	"osqueue/tests/cluster"
	"osqueue/tests/cluster/store"
	"osqueue/tests/history"
)

// archiveFaults befall the objects beside the document, and the document's own text.
var archiveFaults = []Fault{
	{Name: "object-removed", Begin: removeObject, Alone: true},
	{Name: "object-damaged", Begin: damageObject, Alone: true},
	{Name: "lists-failing", Needs: NeedProxy, Hold: 4 * time.Second, Begin: failLists(store.Error)},
	{Name: "lists-hung", Needs: NeedProxy, Hold: 4 * time.Second, Begin: failLists(store.Stall)},
	{Name: "edited-between-leaders", Begin: editBetween, Alone: true},
}

// archiveFlags let nodes look often for missing and damaged objects, and at the inbox.
var archiveFlags = []string{"--archive-check", "1s", "--archive-read", "3s", "--inbox-interval", "1s"}

// needed is an object that the document needs now, by the rng; "" if the document has
// everything in itself.
func (w *World) needed() (key string, o storage.Object) {
	b, ctx := w.Store.Bucket(), w.Cluster.Context(time.Minute)
	w.Cluster.Eventually(cluster.LeaderTimeout, "an object that the document names", func() error {
		data, err := b.Get(ctx, docKey)
		if err != nil {
			return err
		}
		doc, err := document.Decode(data.Data)
		if err != nil {
			return err
		}
		var keys []string
		if doc.Archive.Checkpoint.Key != "" {
			keys = append(keys, doc.Archive.Checkpoint.Key)
		}
		for _, ref := range doc.Archive.Log {
			keys = append(keys, ref.Key)
		}
		if key = ""; len(keys) == 0 {
			return nil
		}
		key = keys[w.Rand.IntN(len(keys))]
		if key == doc.Archive.Checkpoint.Key && w.Rand.IntN(2) == 0 {
			key = strings.TrimSuffix(key, "manifest.json") + "part-000000"
		}
		o, err = b.Get(ctx, key)
		return err
	})
	return key, o
}

const docKey = "queue.json"

func removeObject(w *World, s *history.FaultSpan) func() {
	return w.spoil(s, func(key string, _ storage.Object) error {
		return w.Store.Bucket().Delete(w.Cluster.Context(time.Minute), key)
	})
}

func damageObject(w *World, s *history.FaultSpan) func() {
	return w.spoil(s, func(key string, o storage.Object) error {
		data := append([]byte(nil), o.Data...)
		data[w.Rand.IntN(len(data))] ^= 1 << w.Rand.IntN(8)
		return w.Store.Bucket().PutIfMatch(w.Cluster.Context(time.Minute), key, data, o.Version).Err
	})
}

// healTimeout bounds how long the leader takes to find a missing or damaged object and
// to write a new checkpoint.
const healTimeout = time.Minute

// spoil does something to an object that the document needs. The leader has to find it,
// and to heal it, without anybody's help. The object is put back when the round is over:
// the checkers read all versions of the document.
func (w *World) spoil(s *history.FaultSpan, how func(key string, o storage.Object) error) func() {
	began := w.logged()
	key, o := w.needed()
	if key == "" {
		s.Missed("the document has everything in itself")
		return func() {}
	}
	if err := how(key, o); err != nil {
		w.T.Fatal(err)
	}
	w.spoiled = append(w.spoiled, spoiledObject{key, o.Data})
	err := cluster.Poll(healTimeout, func() error {
		if why := w.found(key, began); why != "" {
			s.Hit(why)
			return nil
		}
		if needs, err := w.stillNamed(key); !needs {
			return err
		}
		return errors.New("no node says so")
	})
	if err != nil {
		w.T.Errorf("%s was spoiled: %v", key, err)
	}
	return func() {
		err := cluster.Poll(healTimeout, func() error {
			if named, err := w.stillNamed(key); err != nil || named {
				return fmt.Errorf("the document still names it: %w", err)
			}
			return nil
		})
		if err != nil {
			w.T.Errorf("%s was spoiled and is not healed: %v", key, err)
		}
		if !s.HasHit() {
			s.Missed("the document did not need it any more")
		}
	}
}

// logged is how much each node has logged.
func (w *World) logged() map[*cluster.Node]int {
	began := make(map[*cluster.Node]int)
	for _, n := range w.Cluster.Nodes {
		began[n] = len(n.Log())
	}
	return began
}

// found is the line in which a node says, since began, that an object is spoiled.
func (w *World) found(key string, began map[*cluster.Node]int) string {
	for _, n := range w.Cluster.Nodes {
		for line := range strings.Lines(n.Log()[began[n]:]) {
			if strings.Contains(line, "is missing or damaged") && strings.Contains(line, key) {
				return strings.TrimSpace(line)
			}
		}
	}
	return ""
}

// stillNamed reports whether the document names an object, or the checkpoint that it is
// a part of.
func (w *World) stillNamed(key string) (bool, error) {
	o, err := w.Store.Bucket().Get(w.Cluster.Context(time.Minute), docKey)
	if err != nil {
		return false, err
	}
	dir := key[:strings.LastIndexByte(key, '/')+1]
	if !strings.HasPrefix(key, "checkpoint/") {
		dir = key
	}
	return strings.Contains(string(o.Data), dir), nil
}

// spoiledObject is one as it was.
type spoiledObject struct {
	key  string
	data []byte
}

// restoreObjects puts back what was spoiled. An object may have been noted twice, the second
// time when it was already damaged: the first note is put back last.
func (w *World) restoreObjects() {
	b, ctx := w.Store.Bucket(), w.Cluster.Context(time.Minute)
	for _, o := range slices.Backward(w.spoiled) {
		if err := b.Delete(ctx, o.key); err != nil && !errors.Is(err, storage.ErrNotFound) {
			w.T.Error(err)
		}
		if r := b.PutIfAbsent(ctx, o.key, o.data); r.Outcome != storage.Committed {
			w.T.Errorf("put %s back: %s %v", o.key, r.Outcome, r.Err)
		}
	}
}

// failLists has all listings of the bucket meet a fault.
func failLists(as store.Fault) func(*World, *history.FaultSpan) func() {
	return func(w *World, s *history.FaultSpan) func() {
		before := w.Proxy.Hits()[as]
		w.Proxy.Inject(as, store.Lists, 1<<20)
		return func() {
			n := w.Proxy.Hits()[as] - before
			w.Proxy.Behave()
			if n == 0 {
				s.Missed("nobody has listed anything")
				return
			}
			s.Hit(fmt.Sprintf("%d listings: %s", n, as))
		}
	}
}
