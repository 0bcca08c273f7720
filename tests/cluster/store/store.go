package store

import (
	"context"
	"testing"
	"time"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
)

const (
	bucketName = "bucket" // that of storagetest
	docKey     = "queue.json"
)

// Store is a bucket of one test.
type Store struct {
	Kind Kind

	url    string
	bucket storage.Bucket
	// Of a store that speaks HTTP:
	words    dialect
	endpoint string
	proxy    *Proxy // nil for a directory
	watch    *watch // of a directory
}

// Start starts the store that the environment chooses. It ends with the test. For
// S3 the process must have credentials (storagetest.SetS3Credentials), which the
// nodes inherit.
func Start(t *testing.T) *Store {
	t.Helper()
	kind, err := Chosen()
	if err != nil {
		t.Fatal(err)
	}
	return StartKind(t, kind)
}

// StartKind starts a store of that kind.
func StartKind(t *testing.T, kind Kind) *Store {
	t.Helper()
	switch kind {
	case GoFakeS3, VersityGW:
		return startBehindProxy(t, kind, s3Words, Server(t, kind))
	case GCS:
		return startBehindProxy(t, kind, gcsWords, Server(t, kind))
	default:
		return startFile(t)
	}
}

// Server starts only the server of a store that speaks HTTP, with one bucket, named "bucket".
func Server(t *testing.T, kind Kind) (endpoint string) {
	t.Helper()
	switch kind {
	case GoFakeS3:
		return startGoFakeS3(t)
	case VersityGW:
		return storagetest.VersityGW(t)
	default:
		return startGCS(t)
	}
}

func startBehindProxy(t *testing.T, kind Kind, words dialect, endpoint string) *Store {
	t.Helper()
	s := &Store{Kind: kind, words: words, endpoint: endpoint, bucket: open(t, words.url(endpoint))}
	s.proxy = startProxy(t, words, endpoint, s.bucket)
	s.url = words.url(s.proxy.endpoint())
	return s
}

// AnotherPath starts a further proxy in front of a store that has one, for a node of its own, and returns it
// with the value of --bucket. Versions and Settle know nothing of it.
func (s *Store) AnotherPath(t *testing.T) (p *Proxy, url string) {
	t.Helper()
	p = startProxy(t, s.words, s.endpoint, s.bucket)
	return p, s.words.url(p.endpoint())
}

func open(t *testing.T, url string) storage.Bucket {
	t.Helper()
	b, err := bucketurl.Open(context.Background(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	return b
}

// URL returns the value of --bucket for the store.
func (s *Store) URL() string { return s.url }

// Bucket returns the store itself, without the proxy.
func (s *Store) Bucket() storage.Bucket { return s.bucket }

// Proxy returns the proxy in front of the store. It skips the test if there is none.
func (s *Store) Proxy(t *testing.T) *Proxy {
	t.Helper()
	if s.proxy == nil {
		t.Skipf("the store is a %s: there is nothing between it and the nodes that could misbehave", s.Kind)
	}
	return s.proxy
}

// HasProxy says whether Proxy will not skip.
func (s *Store) HasProxy() bool { return s.proxy != nil }

// Settle waits until all requests have arrived, late ones too. The senders must have
// stopped before.
func (s *Store) Settle() {
	if s.proxy != nil {
		s.proxy.busy.wait()
	}
}

// Versions returns the accepted versions of queue.json, in their order: all of them, or
// of a directory those that were seen.
func (s *Store) Versions() [][]byte {
	if s.proxy != nil {
		return s.proxy.record.all()
	}
	s.watch.look()
	return s.watch.record.all()
}

// VersionTimes returns the times at which the store had accepted each of Versions, before
// it answered the writer. A directory has none, as there is no proxy in front of it.
func (s *Store) VersionTimes() []time.Time {
	if s.proxy == nil {
		return nil
	}
	return s.proxy.record.when()
}
