package drivers_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"osqueue/storage"
	"osqueue/storage/gcs"
	"osqueue/tests/cluster/store"
)

func openGCSAt(t *testing.T, raw string) storage.Bucket {
	t.Helper()
	u, err := url.Parse(raw)
	check(t, err)
	b, err := gcs.Open(t.Context(), u)
	check(t, err)
	urls.Store(storage.Bucket(b), raw)
	return b
}

var gcsAnswers = []answer{
	{name: "conditionNotMet", Answer: said(412, jsonError(412, "conditionNotMet")), outcome: storage.Conflict},
	{name: "rateLimitExceeded", Answer: said(429, jsonError(429, "rateLimitExceeded")), err: storage.ErrThrottled},
	{name: "backendError", Answer: said(503, jsonError(503, "backendError"))},
	{name: "no bucket", Answer: said(404, jsonError(404, "notFound"))},
}

func jsonError(code int, reason string) string {
	return fmt.Sprintf(`{"error":{"code":%d,"message":"x","errors":[{"reason":%q,"message":"x"}]}}`, code, reason)
}

func TestMissingBucketGCS(t *testing.T) {
	b := openGCSAt(t, "gs://no-such-bucket?endpoint="+store.Server(t, store.GCS))
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
	st := store.StartKind(t, store.GCS)
	p := st.Proxy(t)
	b := openGCSAt(t, st.URL())
	defer b.Close()
	for body, absent := range map[string]bool{
		"No such object: bucket/p/k":           true,
		jsonError(404, "notFound"):             true,
		"":                                     true,
		"<html>not here</html>":                false,
		"The specified bucket does not exist.": false,
		`{"error":{"code":404,"message":"The specified bucket does not exist.","errors":[]}}`: false,
	} {
		p.Behave()
		p.Answer(said(404, body), store.Reads, store.Always)
		if _, err := b.Get(t.Context(), "k"); err == nil || errors.Is(err, storage.ErrNotFound) != absent {
			t.Errorf("404 with %q: %v; absent object: %v", body, err, absent)
		}
	}
	p.Answer(said(403, jsonError(403, "forbidden")), store.Writes, store.Always)
	if w := b.PutIfAbsent(t.Context(), "k", nil); w.Err == nil || !strings.Contains(w.Err.Error(), "refused the credentials") {
		t.Errorf("403: %+v", w)
	}
}
