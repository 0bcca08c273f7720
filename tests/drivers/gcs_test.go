package drivers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/fsouza/fake-gcs-server/fakestorage"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/gcs"
	"osqueue/storage/probe"
)

// fakeGCS starts a GCS server in this process, with one bucket named "bucket".
func fakeGCS(t *testing.T) (endpoint string) {
	t.Helper()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Port: 0})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: "bucket"})
	return server.URL()
}

// openGCS opens a new prefix of "bucket".
func openGCS(t *testing.T, endpoint string) storage.Bucket {
	t.Helper()
	return openGCSAt(t, fmt.Sprintf("gs://bucket/p%d?endpoint=%s", prefixes.Add(1), endpoint))
}

func openGCSAt(t *testing.T, raw string) storage.Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := gcs.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	urls.Store(storage.Bucket(b), raw)
	return b
}

func TestConformanceGCS(t *testing.T) {
	t.Parallel()
	endpoint := fakeGCS(t)
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return openGCS(t, endpoint) },
		storagetest.Shared(func(t *testing.T, b storage.Bucket) storage.Bucket {
			second := openGCSAt(t, urlOf(t, b))
			t.Cleanup(func() { second.Close() })
			return second
		}),
	)
}

func TestHTTPFaultsGCS(t *testing.T) {
	t.Parallel()
	storagetest.RunHTTPFaults(t, storagetest.HTTPDriver{
		Store: fakeGCS(t), Open: openGCS, WriteMethod: http.MethodPost,
		Answers: []storagetest.Answer{
			{Name: "conditionNotMet", Status: 412, Body: jsonError(412, "conditionNotMet"), Outcome: storage.Conflict},
			{Name: "rateLimitExceeded", Status: 429, Body: jsonError(429, "rateLimitExceeded"), Outcome: storage.Unknown, Err: storage.ErrThrottled},
			{Name: "backendError", Status: 503, Body: jsonError(503, "backendError"), Outcome: storage.Unknown},
			{Name: "no bucket", Status: 404, Body: jsonError(404, "notFound"), Outcome: storage.Unknown},
		},
	})
}

func jsonError(code int, reason string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"x","errors":[{"reason":%q,"message":"x"}]}}`, code, reason)
}

func TestProbeGCS(t *testing.T) {
	b := openGCS(t, fakeGCS(t))
	defer b.Close()
	if err := probe.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestMissingBucketGCS(t *testing.T) {
	b := openGCSAt(t, "gs://no-such-bucket?endpoint="+fakeGCS(t))
	defer b.Close()
	if w := b.PutIfMatch(t.Context(), "k", nil, "1"); w.Outcome != storage.Unknown || w.Err == nil {
		t.Errorf("write into no bucket = %+v", w)
	}
	if w := b.PutIfAbsent(t.Context(), "k", nil); w.Outcome != storage.Unknown || w.Err == nil {
		t.Errorf("write into no bucket = %+v", w)
	}
}

// TestWordsOfGCS feeds the driver the answers that GCS is documented to give
// and the emulator does not.
func TestWordsOfGCS(t *testing.T) {
	p := storagetest.NewProxy(t, fakeGCS(t))
	b := openGCS(t, p.URL())
	defer b.Close()
	for body, absent := range map[string]bool{
		"No such object: bucket/p/k":           true,
		jsonError(404, "notFound"):             true,
		"":                                     true,
		"<html>not here</html>":                false,
		"The specified bucket does not exist.": false,
		`{"error":{"code":404,"message":"The specified bucket does not exist.","errors":[]}}`: false,
	} {
		p.Inject(storagetest.Fault{Kind: storagetest.AnswerInstead, Status: 404, Body: body})
		if _, err := b.Get(t.Context(), "k"); err == nil || errors.Is(err, storage.ErrNotFound) != absent {
			t.Errorf("404 with %q: %v; absent object: %v", body, err, absent)
		}
	}
	p.Inject(storagetest.Fault{Kind: storagetest.AnswerInstead, Status: 403, Body: jsonError(403, "forbidden")})
	if w := b.PutIfAbsent(t.Context(), "k", nil); w.Err == nil || !strings.Contains(w.Err.Error(), "refused the credentials") {
		t.Errorf("403: %+v", w)
	}
}
