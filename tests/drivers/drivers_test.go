// Package drivers_test runs the conformance suite of storage drivers (internal/storagetest)
// against servers: emulators in this process, and a real S3 server. They are dependencies of
// the tests only, so these tests are in the module of the tests.
package drivers_test

import (
	"context"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/s3"
	"osqueue/tests/cluster/store"
)

// TestMain knows of a goroutine that a library of the client of GCS starts on import.
func TestMain(m *testing.M) {
	storagetest.MostlyWaits()
	storagetest.SetS3Credentials()
	storagetest.Main(func(ctx context.Context, raw string) (storage.Bucket, error) {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		return s3.Open(ctx, u)
	})
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

// prefixes numbers the prefixes that the tests open.
var prefixes atomic.Int64

// urls has the URL of each open bucket.
var urls sync.Map // storage.Bucket to string

func urlOf(t *testing.T, b storage.Bucket) string {
	t.Helper()
	raw, ok := urls.Load(b)
	if !ok {
		t.Fatal("the bucket was not opened by these tests")
	}
	return raw.(string)
}

// roundTrip writes through one handle and reads through another.
func roundTrip(t *testing.T, raw string) {
	t.Helper()
	handles := [2]storage.Bucket{}
	for i := range handles {
		b, err := bucketurl.Open(t.Context(), raw)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		handles[i] = b
	}
	if w := handles[0].PutIfAbsent(t.Context(), "queue.json", []byte(raw)); w.Outcome != storage.Committed {
		t.Fatalf("put into %s: %+v", raw, w)
	}
	if o, err := handles[1].Get(t.Context(), "queue.json"); err != nil || string(o.Data) != raw {
		t.Fatalf("get from %s: %q, %v", raw, o.Data, err)
	}
}

// TestOpen opens the stores of the cloud by their URLs.
func TestOpen(t *testing.T) {
	t.Run("s3", func(t *testing.T) {
		endpoint := store.Server(t, store.GoFakeS3)
		roundTrip(t, "s3://bucket?endpoint="+endpoint)
		roundTrip(t, "s3://bucket/some/prefix?region=eu-central-1&endpoint="+endpoint)
	})
	t.Run("gs", func(t *testing.T) {
		endpoint := store.Server(t, store.GCS)
		roundTrip(t, "gs://bucket?endpoint="+endpoint)
		roundTrip(t, "gs://bucket/some/prefix/?endpoint="+endpoint+"/")
	})
}
