package s3

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// TestBatchesAreOneRequest removes a batch with one request, and reports which keys of it may
// still be there.
func TestBatchesAreOneRequest(t *testing.T) {
	storagetest.S3Credentials(t)
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		body, err := io.ReadAll(r.Body)
		if err != nil || r.Method != http.MethodPost || !r.URL.Query().Has("delete") || strings.Count(string(body), "<Key>") != storage.MaxBatch {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		fmt.Fprint(w, `<DeleteResult>`+
			`<Error><Key>p/k7</Key><Code>AccessDenied</Code><Message>no</Message></Error>`+
			`<Error><Key>p/k8</Key><Code>SlowDown</Code></Error>`+
			`<Error><Key>p/k9</Key><Code>NoSuchKey</Code></Error></DeleteResult>`)
	}))
	defer server.Close()
	b := openURL(t, "s3://bucket/p?region=us-east-1&endpoint="+server.URL)
	defer b.Close()
	var keys []string
	for i := range storage.MaxBatch {
		keys = append(keys, fmt.Sprint("k", i))
	}
	failed := storage.DeleteAll(t.Context(), b, keys)
	if len(failed) != 2 || failed["k7"] == nil || !errors.Is(failed["k8"], storage.ErrThrottled) || requests.Load() != 1 {
		t.Errorf("%d requests, failed: %v", requests.Load(), failed)
	}
}

// TestStoresWithoutBatches get a request for each key, and are asked for a batch once.
func TestStoresWithoutBatches(t *testing.T) {
	storagetest.S3Credentials(t)
	var batches, singles atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodDelete {
			singles.Add(1)
			w.WriteHeader(http.StatusNoContent)
			return
		}
		batches.Add(1)
		w.WriteHeader(http.StatusNotImplemented)
		fmt.Fprint(w, `<Error><Code>NotImplemented</Code></Error>`)
	}))
	defer server.Close()
	b := openURL(t, "s3://bucket/p?region=us-east-1&endpoint="+server.URL)
	defer b.Close()
	for range 2 {
		if failed := storage.DeleteAll(t.Context(), b, []string{"a", "b", "c"}); len(failed) > 0 {
			t.Errorf("failed: %v", failed)
		}
	}
	if batches.Load() > 3 || singles.Load() != 6 { // the SDK repeats a 501
		t.Errorf("%d batches, %d singles", batches.Load(), singles.Load())
	}
}
