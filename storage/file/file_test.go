package file

import (
	"context"
	"net/url"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/probe"
)

func TestMain(m *testing.M) {
	storagetest.Main(func(ctx context.Context, dir string) (storage.Bucket, error) { return OpenDir(ctx, dir) })
	dieIfAsked()
	goleak.VerifyTestMain(m)
}

func open(t *testing.T, dir string) *Bucket {
	t.Helper()
	b, err := OpenDir(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func dirURL(dir string) *url.URL { return &url.URL{Scheme: "file", Path: dir} }

// path is the file of an object.
func (b *Bucket) path(key string) string { return filepath.Join(b.dir, path(key)) }

func TestConformance(t *testing.T) {
	t.Parallel()
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return open(t, t.TempDir()) },
		storagetest.RepeatsVersions(),
		storagetest.Shared(func(t *testing.T, b storage.Bucket) storage.Bucket { return open(t, b.(*Bucket).dir) }),
	)
}

func TestStreamsInLittleMemory(t *testing.T) { // not parallel: it counts all allocations
	storagetest.StreamsInLittleMemory(t, open(t, t.TempDir()))
}

func TestProcesses(t *testing.T) {
	t.Parallel()
	load := storagetest.Load{Children: 4, Kills: 12, Acked: 60}
	if testing.Short() {
		load.Kills = 3
	}
	dir := t.TempDir()
	storagetest.Processes(t, open(t, dir), dir, load)
}

// TestManyBegin lets several brokers open a new directory and probe it at once.
// Each deletes what the others have just made directories for.
func TestManyBegin(t *testing.T) {
	for range 10 {
		dir := t.TempDir()
		var group sync.WaitGroup
		for range 6 {
			group.Go(func() {
				b, err := OpenDir(t.Context(), dir)
				if err == nil {
					err = probe.Run(t.Context(), b)
				}
				if err != nil {
					t.Error(err)
				}
			})
		}
		group.Wait()
	}
}

func TestProbe(t *testing.T) {
	if err := probe.Run(t.Context(), open(t, t.TempDir())); err != nil {
		t.Fatal(err)
	}
}
