package s3

import (
	"fmt"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

func TestMain(m *testing.M) {
	storagetest.MostlyWaits()
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m)
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
	return b
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

// A listing of a directory bucket has no order, on which the collector of garbage relies.
func TestDirectoryBucketsAreRefused(t *testing.T) {
	for name, refused := range map[string]bool{"jobs--euw1-az1--x-s3": true, "jobs--x-s3-old": false} {
		u, err := url.Parse("s3://" + name + "/prod?region=eu-west-1")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), u); (err != nil) != refused || refused && !strings.Contains(err.Error(), "give a general purpose bucket") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
