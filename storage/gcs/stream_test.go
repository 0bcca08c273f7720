package gcs

import (
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// upload answers a simple upload with the CRC of its bytes.
func upload(w http.ResponseWriter, r *http.Request) {
	crc := crc32.New(castagnoli)
	_, _ = io.Copy(crc, r.Body)
	fmt.Fprintf(w, `{"generation":"7","crc32c":%q}`, base64.StdEncoding.EncodeToString(crc.Sum(nil)))
}

func TestStreamsInLittleMemory(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(upload))
	defer server.Close()
	b := openURL(t, "gs://bucket?endpoint="+server.URL)
	defer b.Close()
	storagetest.StreamsInLittleMemory(t, b)
}

// An object whose bytes were changed on their way is deleted, if it is still that one.
func TestChangedOnTheWay(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		got = append(got, r.Method+" "+q.Get("ifGenerationMatch")+" "+q.Get("kmsKeyName"))
		if r.Method == http.MethodPost {
			r.Body = io.NopCloser(strings.NewReader("abd"))
			upload(w, r)
		}
	}))
	defer server.Close()
	b := openURL(t, "gs://bucket/p?kms-key=k&endpoint="+server.URL)
	defer b.Close()
	w := b.PutStream(t.Context(), "k", strings.NewReader("abc"), storage.Content{Size: 3, Sum: sha256.Sum256([]byte("abc"))})
	if w.Outcome != storage.Unknown || !errors.Is(w.Err, errChanged) {
		t.Errorf("%+v", w)
	}
	if want := []string{"POST 0 k", "DELETE 7 "}; !slices.Equal(got, want) {
		t.Errorf("requests %q, want %q", got, want)
	}
}
