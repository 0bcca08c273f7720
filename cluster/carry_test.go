package cluster

import (
	"slices"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// keptJobs returns the ids of the jobs in all copies in the bucket.
func (l *lab) keptJobs() (ids []string) {
	l.t.Helper()
	for _, key := range l.keys("conflicts/") {
		obj, err := l.bucket.Get(l.t.Context(), key)
		if err != nil {
			l.t.Fatal(err)
		}
		doc, err := document.Decode(obj.Data)
		if err != nil {
			l.t.Fatalf("the copy %s: %v", key, err)
		}
		m, err := doc.Legacy()
		if err != nil {
			l.t.Fatalf("the copy %s: %v", key, err)
		}
		m.View().List(fsm.Index{}, []fsm.Status{fsm.Unclaimed, fsm.InProgress, fsm.Dead}, 0, func(j *fsm.Job) bool {
			ids = append(ids, j.ID)
			return true
		})
	}
	slices.Sort(ids)
	return ids
}

// keys returns the keys in the bucket that begin with prefix.
func (l *lab) keys(prefix string) (keys []string) {
	l.t.Helper()
	if err := l.bucket.List(l.t.Context(), prefix, func(i storage.Info) bool { keys = append(keys, i.Key); return true }); err != nil {
		l.t.Fatal(err)
	}
	return keys
}

// release lets any cluster take the document over at once.
func (l *lab) release() {
	l.t.Helper()
	o, err := l.bucket.Get(l.t.Context(), DocumentKey)
	if err != nil {
		l.t.Fatal(err)
	}
	data, err := document.Release(o.Data)
	if err != nil {
		l.t.Fatal(err)
	}
	if w := l.bucket.PutIfMatch(l.t.Context(), DocumentKey, data, o.Version); w.Outcome != storage.Committed {
		l.t.Fatal(w.Err)
	}
}

// idle waits until m has flushed everything.
func (l *lab) idle(m *member) {
	l.t.Helper()
	l.eventually("the flush", func() bool { return l.document().Header.LSN().Compare(m.View().LSN()) >= 0 })
}
