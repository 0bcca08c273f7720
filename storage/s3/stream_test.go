package s3

import (
	"crypto/sha256"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

func TestStreamsInLittleMemory(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"e"`)
	}))
	defer server.Close()
	b := open(t, server.URL)
	defer b.Close()
	storagetest.StreamsInLittleMemory(t, b.(*Bucket))
}

// Every request for an object has what the store compares, as it was signed, and asks for the encryption.
func TestStreamsAnnounceTheirBytes(t *testing.T) {
	var got http.Header
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Clone()
		got.Set("Content-Length", strconv.FormatInt(r.ContentLength, 10))
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("ETag", `"e"`)
	}))
	defer server.Close()
	b := openURL(t, "s3://bucket/p?region=us-east-1&sse=kms&sse-key=k&endpoint="+server.URL)
	defer b.Close()
	c := storage.Content{Size: 3, Sum: sha256.Sum256([]byte("abc"))}
	if w := b.PutStream(t.Context(), "k", io.MultiReader(strings.NewReader("abc")), c); w.Outcome != storage.Committed {
		t.Fatal(w)
	}
	signed, err := b.SignPut(t.Context(), "k", c, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"X-Amz-Checksum-Sha256": "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=", "If-None-Match": "*", "Content-Length": "3",
		"X-Amz-Server-Side-Encryption": "aws:kms", "X-Amz-Server-Side-Encryption-Aws-Kms-Key-Id": "k", "Content-Type": "application/octet-stream",
	}
	for name, value := range want {
		if got.Get(name) != value {
			t.Errorf("%s of a stream is %q, want %q", name, got.Get(name), value)
		}
		if signed.Header.Get(name) != value || !strings.Contains(signed.URL, strings.ToLower(name)) {
			t.Errorf("%s of a signed request is %q, want %q; %s", name, signed.Header.Get(name), value, signed.URL)
		}
	}
	if hash := got.Get("X-Amz-Content-Sha256"); hash != "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" {
		t.Errorf("the signature is for a body with the hash %s", hash)
	}
}

// A store that ignores ranges, or answers with another one, must not be read from the beginning.
func TestOtherRanges(t *testing.T) {
	for answer, good := range map[string]bool{"": false, "bytes 0-1/4": false, "bytes 1-2/4": true} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("ETag", `"e"`)
			if answer != "" {
				w.Header().Set("Content-Range", answer)
				w.WriteHeader(http.StatusPartialContent)
			}
			_, _ = io.WriteString(w, "bc")
		}))
		b := open(t, server.URL).(*Bucket)
		body, err := b.GetRange(t.Context(), "k", 1, 2)
		if (err == nil) != good || !good && !errors.Is(err, errNoRange) {
			t.Errorf("%q: %v", answer, err)
		}
		if err == nil {
			body.Close()
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		server.CloseClientConnections()
		server.Close()
	}
}
