package s3

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// md5A and md5B are the ETags of plain objects "a" and "b".
const (
	md5A = `"0cc175b9c0f1b6a831c399e269772661"`
	md5B = `"92eb5ffee6ae2fec3ad71c777531578f"`
	kms  = `"00000000000000000000000000000000"`
	kms2 = `"11111111111111111111111111111111"`
)

// A read whose ETag may be that of another version is made again: a
// compare-and-swap on it would replace bytes that were never read.
func TestTornReads(t *testing.T) {
	storagetest.S3Credentials(t)
	for name, c := range map[string]struct {
		answers [][2]string // ETag and body of each read; the last one repeats
		want    storage.Object
		reads   int
	}{
		"plain":            {[][2]string{{md5A, "a"}}, storage.Object{Data: []byte("a"), Version: md5A}, 1},
		"torn once":        {[][2]string{{md5A, "b"}, {md5B, "b"}}, storage.Object{Data: []byte("b"), Version: md5B}, 2},
		"encrypted":        {[][2]string{{kms, "a"}}, storage.Object{Data: []byte("a"), Version: kms}, 2},
		"encrypted, moved": {[][2]string{{kms, "b"}, {kms2, "b"}}, storage.Object{Data: []byte("b"), Version: kms2}, 3},
		"other bytes":      {[][2]string{{kms, "a"}, {kms, "b"}}, storage.Object{Data: []byte("b"), Version: kms}, 3},
		"never the same":   {[][2]string{{kms, "a"}, {kms, "b"}, {kms, "a"}, {kms, "b"}, {kms, "a"}}, storage.Object{}, 5},
	} {
		t.Run(name, func(t *testing.T) {
			reads := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				a := c.answers[min(reads, len(c.answers)-1)]
				reads++
				w.Header().Set("ETag", a[0])
				_, _ = io.WriteString(w, a[1])
			}))
			defer server.Close()
			defer server.CloseClientConnections()
			b := open(t, server.URL)
			defer b.Close()
			got, err := b.Get(t.Context(), "k")
			if (err != nil) != (c.want.Version == "") || got.Version != c.want.Version || string(got.Data) != string(c.want.Data) {
				t.Errorf("read %q with ETag %s, %v", got.Data, got.Version, err)
			}
			if reads != c.reads {
				t.Errorf("%d reads, want %d", reads, c.reads)
			}
		})
	}
}
