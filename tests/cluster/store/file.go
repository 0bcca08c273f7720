package store

import (
	"context"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"osqueue/storage"
)

func startFile(t *testing.T) *Store {
	t.Helper()
	url := "file://" + filepath.Join(t.TempDir(), "bucket")
	s := &Store{Kind: File, url: url, bucket: open(t, url)}
	s.watch = startWatch(t, s.bucket)
	return s
}

// watchInterval is shorter than the interval between two flushes.
const watchInterval = 10 * time.Millisecond

// watch reads the document of a directory again and again, as a directory has no record
// of its versions. It sees most of them, in order.
type watch struct {
	bucket storage.Bucket
	record record

	mu   sync.Mutex // one look at a time, or an older one would be noted later
	last storage.Version
}

func startWatch(t *testing.T, b storage.Bucket) *watch {
	w := &watch{bucket: b}
	stop, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		tick := time.NewTicker(watchInterval)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				w.look()
			case <-stop:
				return
			}
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-gone
	})
	return w
}

// look records the document if it differs from the last one.
func (w *watch) look() {
	w.mu.Lock()
	defer w.mu.Unlock()
	o, err := w.bucket.Get(context.Background(), docKey)
	if err != nil || o.Version == w.last {
		return
	}
	w.last = o.Version
	w.record.add(o.Data)
}
