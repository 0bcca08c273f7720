package drivers_test

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/s3"
	"osqueue/tests/cluster/store"
)

// openS3At opens a bucket whose listings take several requests.
func openS3At(t *testing.T, raw string) *s3.Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	check(t, err)
	b, err := s3.Open(t.Context(), u)
	check(t, err)
	b.SetPageSize(7)
	urls.Store(storage.Bucket(b), raw)
	return b
}

func TestProcessesVersityGW(t *testing.T) {
	t.Parallel()
	raw := "s3://bucket/processes?region=us-east-1&endpoint=" + store.Server(t, store.VersityGW)
	b := openS3At(t, raw)
	defer b.Close()
	storagetest.Processes(t, b, raw, storagetest.Load{Children: 3, Kills: 3, Acked: 40})
}

func xmlError(code string) string {
	return `<?xml version="1.0" encoding="UTF-8"?><Error><Code>` + code + `</Code><Message>x</Message></Error>`
}

var s3Answers = []answer{
	{name: "ConditionalRequestConflict", Answer: said(409, xmlError("ConditionalRequestConflict")), outcome: storage.Conflict},
	{name: "PreconditionFailed", Answer: said(412, xmlError("PreconditionFailed")), outcome: storage.Conflict},
	{name: "NoSuchKey", Answer: said(404, xmlError("NoSuchKey")), outcome: storage.Conflict},
	{name: "NoSuchBucket", Answer: said(404, xmlError("NoSuchBucket"))},
	{name: "SlowDown", Answer: said(503, xmlError("SlowDown")), err: storage.ErrThrottled},
	{name: "ServiceUnavailable", Answer: said(503, xmlError("ServiceUnavailable"))},
	{name: "InternalError", Answer: said(500, xmlError("InternalError"))},
	{name: "RequestTimeout", Answer: said(400, xmlError("RequestTimeout"))},
	{name: "ExpiredToken", Answer: said(400, xmlError("ExpiredToken"))},
}

func openS3Bucket(t *testing.T, raw string) storage.Bucket { return openS3At(t, raw) }

func TestMissingBucketS3(t *testing.T) {
	for name, endpoint := range map[string]string{"gofakes3": store.Server(t, store.GoFakeS3), "VersityGW": ""} {
		t.Run(name, func(t *testing.T) {
			if endpoint == "" {
				endpoint = store.Server(t, store.VersityGW)
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
	check(t, err)
	answer, err := http.DefaultTransport.RoundTrip(r)
	check(t, err)
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		t.Fatalf("put %s: %s", address, answer.Status)
	}
}

// TestPrefixesAreApart checks that a bucket sees only what is below its
// prefix, and none of the names there that are no keys.
func TestPrefixesAreApart(t *testing.T) {
	ctx, endpoint := t.Context(), store.Server(t, store.GoFakeS3)
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

// TestSigned uses signed requests against a server that checks signatures, which gofakes3 does not.
func TestSigned(t *testing.T) {
	t.Parallel()
	b := openS3At(t, "s3://bucket/signed?region=us-east-1&endpoint="+store.Server(t, store.VersityGW))
	defer b.Close()
	storagetest.Signs(t, b, true)
}
