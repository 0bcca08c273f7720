package s3

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"go.uber.org/goleak"

	"osqueue/storage"
	"osqueue/storage/probe"
	"osqueue/storage/storagetest"
)

func TestMain(m *testing.M) {
	storagetest.MostlyWaits()
	storagetest.SetS3Credentials()
	storagetest.Main(func(ctx context.Context, raw string) (storage.Bucket, error) {
		u, err := url.Parse(raw)
		if err != nil {
			return nil, err
		}
		return Open(ctx, u)
	})
	goleak.VerifyTestMain(m)
}

// fake starts an S3 server in this process, with one bucket named "bucket".
func fake(t *testing.T) (endpoint string) {
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

var prefixes atomic.Int64

// open opens a new prefix of "bucket".
func open(t *testing.T, endpoint string) storage.Bucket {
	t.Helper()
	return openURL(t, fmt.Sprintf("s3://bucket/p%d?region=us-east-1&endpoint=%s", prefixes.Add(1), endpoint))
}

func openURL(t *testing.T, raw string) *Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	b.pageSize = 7
	return b
}

// again opens a second handle on the same prefix.
func again(endpoint string) func(*testing.T, storage.Bucket) storage.Bucket {
	return func(t *testing.T, b storage.Bucket) storage.Bucket {
		prefix := strings.Trim(b.(*Bucket).location.Prefix, "/")
		second := openURL(t, "s3://bucket/"+prefix+"?region=us-east-1&endpoint="+endpoint)
		t.Cleanup(func() { second.Close() })
		return second
	}
}

func TestConformanceFake(t *testing.T) {
	t.Parallel()
	endpoint := fake(t)
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return open(t, endpoint) },
		storagetest.RepeatsVersions(), storagetest.Shared(again(endpoint)),
	)
}

func TestConformanceVersityGW(t *testing.T) {
	t.Parallel()
	endpoint := storagetest.VersityGW(t)
	storagetest.Run(t,
		func(t *testing.T) storage.Bucket { return open(t, endpoint) },
		storagetest.RepeatsVersions(), storagetest.Shared(again(endpoint)),
	)
}

func TestProcessesVersityGW(t *testing.T) {
	t.Parallel()
	raw := "s3://bucket/processes?region=us-east-1&endpoint=" + storagetest.VersityGW(t)
	b := openURL(t, raw)
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

func TestHTTPFaultsFake(t *testing.T) {
	t.Parallel()
	storagetest.RunHTTPFaults(t, storagetest.HTTPDriver{
		Store: fake(t), Open: open, WriteMethod: http.MethodPut, Answers: answers,
	})
}

func TestHTTPFaultsVersityGW(t *testing.T) {
	t.Parallel()
	storagetest.RunHTTPFaults(t, storagetest.HTTPDriver{
		Store: storagetest.VersityGW(t), Open: open, WriteMethod: http.MethodPut, Answers: answers,
	})
}

func TestProbe(t *testing.T) {
	t.Run("gofakes3", func(t *testing.T) { probeAt(t, fake(t)) })
	t.Run("VersityGW", func(t *testing.T) { probeAt(t, storagetest.VersityGW(t)) })
}

func probeAt(t *testing.T, endpoint string) {
	b := open(t, endpoint)
	defer b.Close()
	if err := probe.Run(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestMissingBucket(t *testing.T) {
	for name, endpoint := range map[string]string{"gofakes3": fake(t), "VersityGW": ""} {
		t.Run(name, func(t *testing.T) {
			if endpoint == "" {
				endpoint = storagetest.VersityGW(t)
			}
			b := openURL(t, "s3://no-such-bucket?region=us-east-1&endpoint="+endpoint)
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

// TestPrefixesAreApart checks that a bucket sees only what is below its
// prefix, and none of the names there that are no keys.
func TestPrefixesAreApart(t *testing.T) {
	ctx, endpoint := t.Context(), fake(t)
	open := func(prefix string) *Bucket {
		b := openURL(t, "s3://bucket"+prefix+"?region=us-east-1&endpoint="+endpoint)
		t.Cleanup(func() { b.Close() })
		return b
	}
	root, a, ab := open(""), open("/a"), open("/a/b")
	root.PutIfAbsent(ctx, "a-sibling", nil)
	ab.PutIfAbsent(ctx, "k", []byte("1"))
	for _, name := range []string{"a/", "a/b/", "a/.hidden", "a/with space"} {
		if _, err := root.client.PutObject(ctx, &s3.PutObjectInput{Bucket: aws.String("bucket"), Key: aws.String(name)}); err != nil {
			t.Fatal(err)
		}
	}
	for b, want := range map[*Bucket]string{root: "[a-sibling a/b/k]", a: "[b/k]", ab: "[k]"} {
		var keys []string
		err := b.List(ctx, "", func(i storage.Info) bool { keys = append(keys, i.Key); return true })
		if err != nil || fmt.Sprint(keys) != want {
			t.Errorf("%s lists %q, %v, want %s", b.location, keys, err, want)
		}
	}
	if o, err := root.Get(ctx, "a/b/k"); err != nil || string(o.Data) != "1" {
		t.Errorf("get by the longer key: %q, %v", o.Data, err)
	}
}

func TestIsETag(t *testing.T) {
	for _, v := range []storage.Version{`"abc"`, "abc", `"d41d8cd98f00b204e9800998ecf8427e-2"`, `"AbC+/="`} {
		if !isETag(v) {
			t.Errorf("%s is an ETag", v)
		}
	}
	for _, v := range []storage.Version{"", `""`, "*", `"*"`, `"a", "b"`, "a b", "a\n", "ä", `a"b`} {
		if isETag(v) {
			t.Errorf("%s is no ETag", v)
		}
	}
}

func TestTLSAndDefaultChecksums(t *testing.T) {
	storagetest.S3Credentials(t)
	b := openURL(t, "s3://bucket?region=eu-north-1")
	defer b.Close()
	o := b.client.Options()
	if o.Region != "eu-north-1" || o.UsePathStyle || o.BaseEndpoint != nil ||
		o.RequestChecksumCalculation != aws.RequestChecksumCalculationWhenSupported {
		t.Errorf("options for Amazon: region %s, path style %v, endpoint %v", o.Region, o.UsePathStyle, o.BaseEndpoint)
	}
}
