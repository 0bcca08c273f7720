// Package drivers_test runs the conformance suite of storage drivers (internal/storagetest)
// against servers: emulators in this process, and a real S3 server. They are dependencies of
// the tests only, so these tests are in the module of the tests.
package drivers_test

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/probe"
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

// driver is a driver of a store behind HTTP.
type driver struct {
	kind    store.Kind
	url     string // with a prefix and an endpoint
	open    func(t *testing.T, raw string) storage.Bucket
	answers []answer
	options []storagetest.Option
}

const s3URL = "s3://bucket%s?region=us-east-1&endpoint=%s"

var drivers = map[string]driver{
	"gofakes3":  {store.GoFakeS3, s3URL, openS3Bucket, s3Answers, []storagetest.Option{storagetest.RepeatsVersions()}},
	"VersityGW": {store.VersityGW, s3URL, openS3Bucket, s3Answers, []storagetest.Option{storagetest.RepeatsVersions()}},
	"GCS":       {store.GCS, "gs://bucket%s?endpoint=%s", openGCSAt, gcsAnswers, nil},
}

// each runs a test with each driver.
func each(t *testing.T, test func(t *testing.T, d driver)) {
	for name, d := range drivers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, d)
		})
	}
}

// fresh opens a new prefix of "bucket".
func (d driver) fresh(t *testing.T, endpoint string) storage.Bucket {
	t.Helper()
	return d.open(t, fmt.Sprintf(d.url, fmt.Sprint("/p", prefixes.Add(1)), endpoint))
}

func TestConformance(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d driver) {
		endpoint := store.Server(t, d.kind)
		second := func(t *testing.T, b storage.Bucket) storage.Bucket {
			same := d.open(t, urlOf(t, b))
			t.Cleanup(func() { same.Close() })
			return same
		}
		storagetest.Run(t, func(t *testing.T) storage.Bucket { return d.fresh(t, endpoint) }, append(d.options, storagetest.Shared(second))...)
	})
}

func TestHTTPFaults(t *testing.T) {
	t.Parallel()
	each(t, runFaults)
}

func TestProbe(t *testing.T) {
	t.Parallel()
	each(t, func(t *testing.T, d driver) {
		b := d.fresh(t, store.Server(t, d.kind))
		defer b.Close()
		check(t, probe.Run(t.Context(), b))
	})
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
		check(t, err)
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

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
