package bucketurl_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
)

func TestMain(m *testing.M) {
	// The GCS client's libraries start it on import.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
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

// TestOpen opens the stores that need no server; tests/drivers opens the others.
func TestOpen(t *testing.T) {
	t.Run("mem", func(t *testing.T) { roundTrip(t, "mem://"+t.Name()[:8]) })
	t.Run("file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "made", "by open")
		roundTrip(t, "file://"+strings.ReplaceAll(dir, " ", "%20"))
		if _, err := os.Stat(filepath.Join(dir, "queue.json")); err != nil {
			t.Error(err)
		}
	})
}

func TestOpenSaysWhatToWrite(t *testing.T) {
	storagetest.S3Credentials(t)
	t.Setenv("AWS_REGION", "")
	for raw, hint := range map[string]string{
		"":                                   "write mem://NAME, file:///DIR",
		"bucket":                             "write mem://NAME, file:///DIR",
		"/var/lib/q":                         "write file:///var/lib/q",
		"/with space":                        "write file:///with%20space",
		"./q":                                "write file:///",
		"~/q":                                "write file:///absolute/path",
		"file://relative/dir":                "write file:///DIR",
		"file:relative":                      "write file:///DIR",
		"file:///d?x=1":                      "no parameters",
		"file:///a%zz":                       "%25",
		"gcs://b":                            "did you mean gs://",
		"https://s3.example.com/b":           "did you mean s3://",
		"redis://h":                          "unknown scheme \"redis\"; write mem://NAME",
		"mem://a/b":                          "write mem://NAME",
		"s3://":                              "write s3://BUCKET",
		"s3://b":                             "write s3://b/?region=NAME or set AWS_REGION",
		"s3://b?endpoint=localhost":          "endpoint=http://HOST:PORT",
		"s3://b?enpoint=x":                   "use endpoint, region",
		"gs://b?region=x":                    "use endpoint",
		"gs:///p":                            "write gs://BUCKET",
		"s3://user:secret@b/%":               "cannot be read",
		"redis://user:secret@h":              "unknown scheme",
		"s3://user:secret@b?endp=x":          "must not contain credentials",
		"mem://user:secret@b":                "write mem://NAME",
		"file://user:secret@/d":              "no parameters",
		"b?secret_key=secret":                "write mem://NAME",
		"/d?secret_key=secret":               "write file:///d",
		"file:///d?key=secret":               "no parameters",
		"redis://h?key=secret":               "unknown scheme",
		"s3://b?key=secret":                  "unknown parameter \"key\"",
		"s3://b?%zz=secret":                  "NAME=VALUE",
		"s3://b#secret":                      "fragment",
		"s3://b?endpoint=https://u:secret@h": "must have a scheme",
		"s3://b?endpoint=ftp://u:secret@h":   "is not a web address",
		"s3://b?endpoint=http://u:secret%2540h%3Ax": "is not a web address",
	} {
		b, err := bucketurl.Open(context.Background(), raw)
		if err == nil || b != nil {
			t.Errorf("Open(%q) = %v, %v, want nil and an error", raw, b, err)
			continue
		}
		if !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), "secret") {
			t.Errorf("Open(%q): %v\nwant the hint %q and no password", raw, err, hint)
		}
	}
}

func TestCheck(t *testing.T) {
	if err := bucketurl.Check("s3://b/p"); err != nil {
		t.Error(err)
	}
	if err := bucketurl.Check("b/p"); err == nil {
		t.Error("took a URL without a scheme")
	}
}

func FuzzCheck(f *testing.F) {
	for _, seed := range []string{"mem://", "file:///d", "s3://b?x=%", "gs:", ":", "/p", "~", "a:b:c", "s3://[::1"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if err := bucketurl.Check(raw); err == nil && !strings.Contains(raw, ":") {
			t.Fatalf("%q has no scheme", raw)
		}
	})
}

func TestWithEncryption(t *testing.T) {
	for _, c := range []struct{ raw, kind, key, want string }{
		{"s3://b/p?region=x", "", "", "s3://b/p?region=x"},
		{"s3://b/p?region=x", "kms", "", "s3://b/p?region=x&sse=kms"},
		{"s3://b/p", "kms", "arn:aws:kms:x", "s3://b/p?sse=kms&sse-key=arn%3Aaws%3Akms%3Ax"},
		{"gs://b", "kms", "projects/a", "gs://b?kms-key=projects%2Fa"},
	} {
		if got, err := bucketurl.WithEncryption(c.raw, c.kind, c.key); err != nil || got != c.want {
			t.Errorf("%s, %s, %s: %s, %v", c.raw, c.kind, c.key, got, err)
		}
	}
	for _, c := range [][3]string{{"gs://b", "kms", ""}, {"gs://b", "s3", "k"}, {"file:///x", "kms", ""}, {"mem://x", "", "k"}, {"nothing", "kms", ""}} {
		if got, err := bucketurl.WithEncryption(c[0], c[1], c[2]); err == nil {
			t.Errorf("%v: %s", c, got)
		}
	}
}
