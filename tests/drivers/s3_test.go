package drivers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/probe"
	"osqueue/storage/s3"
)

// fakeS3 starts an S3 server in this process, with one bucket named "bucket".
func fakeS3(t *testing.T) (endpoint string) {
	t.Helper()
	storagetest.S3Credentials(t)
	backend := s3mem.New()
	if err := backend.CreateBucket("bucket"); err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(gofakes3.New(backend).Server())
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	return server.URL
}

// openS3 opens a new prefix of "bucket".
func openS3(t *testing.T, endpoint string) storage.Bucket {
	t.Helper()
	return openS3At(t, fmt.Sprintf("s3://bucket/p%d?region=us-east-1&endpoint=%s", prefixes.Add(1), endpoint))
}

// openS3At opens a bucket whose listings take several requests.
func openS3At(t *testing.T, raw string) *s3.Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := s3.Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	b.SetPageSize(7)
	urls.Store(storage.Bucket(b), raw)
	return b
}

// sameS3 opens a second handle on the same prefix.
func sameS3(t *testing.T, b storage.Bucket) storage.Bucket {
	second := openS3At(t, urlOf(t, b))
	t.Cleanup(func() { second.Close() })
	return second
}

func TestConformanceS3(t *testing.T) {
	t.Parallel()
	endpoint := fakeS3(t)
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return openS3(t, endpoint) },
		storagetest.RepeatsVersions(), storagetest.Shared(sameS3),
	)
}

func TestConformanceVersityGW(t *testing.T) {
	t.Parallel()
	endpoint := storagetest.VersityGW(t)
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return openS3(t, endpoint) },
		storagetest.RepeatsVersions(), storagetest.Shared(sameS3),
	)
}

func TestProcessesVersityGW(t *testing.T) {
	t.Parallel()
	raw := "s3://bucket/processes?region=us-east-1&endpoint=" + storagetest.VersityGW(t)
	b := openS3At(t, raw)
	defer b.Close()
	storagetest.Processes(t, b, raw, storagetest.Load{Children: 3, Kills: 3, Acked: 40})
}

func xmlError(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>x</Message></Error>`
}

var answers = []storagetest.Answer{
	{Name: "ConditionalRequestConflict", Status: 409, Body: xmlError("ConditionalRequestConflict"), Outcome: storage.Conflict},
	{Name: "PreconditionFailed", Status: 412, Body: xmlError("PreconditionFailed"), Outcome: storage.Conflict},
	{Name: "NoSuchKey", Status: 404, Body: xmlError("NoSuchKey"), Outcome: storage.Conflict},
	{Name: "NoSuchBucket", Status: 404, Body: xmlError("NoSuchBucket"), Outcome: storage.Unknown},
	{Name: "SlowDown", Status: 503, Body: xmlError("SlowDown"), Outcome: storage.Unknown, Err: storage.ErrThrottled},
	{Name: "ServiceUnavailable", Status: 503, Body: xmlError("ServiceUnavailable"), Outcome: storage.Unknown},
	{Name: "InternalError", Status: 500, Body: xmlError("InternalError"), Outcome: storage.Unknown},
	{Name: "RequestTimeout", Status: 400, Body: xmlError("RequestTimeout"), Outcome: storage.Unknown},
	{Name: "ExpiredToken", Status: 400, Body: xmlError("ExpiredToken"), Outcome: storage.Unknown},
}

func TestHTTPFaultsS3(t *testing.T) {
	t.Parallel()
	storagetest.RunHTTPFaults(t, storagetest.HTTPDriver{
		Store: fakeS3(t), Open: openS3, WriteMethod: http.MethodPut, Answers: answers,
	})
}

func TestHTTPFaultsVersityGW(t *testing.T) {
	t.Parallel()
	storagetest.RunHTTPFaults(t, storagetest.HTTPDriver{
		Store: storagetest.VersityGW(t), Open: openS3, WriteMethod: http.MethodPut, Answers: answers,
	})
}

func TestProbeS3(t *testing.T) {
	t.Run("gofakes3", func(t *testing.T) { probeAt(t, fakeS3(t)) })
	t.Run("VersityGW", func(t *testing.T) { probeAt(t, storagetest.VersityGW(t)) })
}

func probeAt(t *testing.T, endpoint string) {
	b := openS3(t, endpoint)
	defer b.Close()
	if err := probe.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestMissingBucketS3(t *testing.T) {
	for name, endpoint := range map[string]string{"gofakes3": fakeS3(t), "VersityGW": ""} {
		t.Run(name, func(t *testing.T) {
			if endpoint == "" {
				endpoint = storagetest.VersityGW(t)
			}
			b := openS3At(t, "s3://no-such-bucket?region=us-east-1&endpoint="+endpoint)
			defer b.Close()
			_, err := b.Get(t.Context(), "k")
			absent, match := b.PutIfAbsent(t.Context(), "k", nil), b.PutIfMatch(t.Context(), "k", nil, `"1"`)
			for _, err := range []error{err, absent.Err, match.Err} {
				if err == nil || errors.Is(err, storage.ErrNotFound) || !strings.Contains(err.Error(), "create it first") {
					t.Errorf("error %v, want one that says that the bucket is missing", err)
				}
			}
			if absent.Outcome != storage.Unknown || match.Outcome != storage.Unknown {
				t.Errorf("outcomes %v and %v, want unknown", absent.Outcome, match.Outcome)
			}
		})
	}
}

// putRaw creates an empty object under a name that the driver would refuse.
func putRaw(t *testing.T, address string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("put %s: %s", address, answer.Status)
	}
}

// TestPrefixesAreApart checks that a bucket sees only what is below its
// prefix, and none of the names there that are no keys.
func TestPrefixesAreApart(t *testing.T) {
	ctx, endpoint := t.Context(), fakeS3(t)
	open := func(prefix string) *s3.Bucket {
		b := openS3At(t, "s3://bucket"+prefix+"?region=us-east-1&endpoint="+endpoint)
		t.Cleanup(func() { b.Close() })
		return b
	}
	root, a, ab := open(""), open("/a"), open("/a/b")
	root.PutIfAbsent(ctx, "a-sibling", nil)
	ab.PutIfAbsent(ctx, "k", []byte("1"))
	for _, name := range []string{"a/", "a/b/", "a/.hidden", "a/with space"} {
		putRaw(t, endpoint+"/bucket/"+url.PathEscape(name))
	}
	for b, want := range map[*s3.Bucket]string{root: "[a-sibling a/b/k]", a: "[b/k]", ab: "[k]"} {
		var keys []string
		err := b.List(ctx, "", func(i storage.Info) bool { keys = append(keys, i.Key); return true })
		if err != nil || fmt.Sprint(keys) != want {
			t.Errorf("%s lists %q, %v, want %s", urlOf(t, b), keys, err, want)
		}
	}
	if o, err := root.Get(ctx, "a/b/k"); err != nil || string(o.Data) != "1" {
		t.Errorf("get by the longer key: %q, %v", o.Data, err)
	}
}
