package s3

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// Every write asks for the encryption, also the conditional ones.
func TestWritesAskForEncryption(t *testing.T) {
	storagetest.S3Credentials(t)
	for query, want := range map[string]string{
		"":                             "||",
		"&sse=s3":                      "AES256||",
		"&sse=kms":                     "aws:kms||true",
		"&sse=kms&sse-key=arn:aws:x/1": "aws:kms|arn:aws:x/1|true",
		"&sse=kms-dsse&sse-key=k":      "aws:kms:dsse|k|",
	} {
		var got []string
		store := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			const prefix = "X-Amz-Server-Side-Encryption"
			h := r.Header
			got = append(got, h.Get("If-Match")+h.Get("If-None-Match")+" "+
				strings.Join([]string{h.Get(prefix), h.Get(prefix + "-Aws-Kms-Key-Id"), h.Get(prefix + "-Bucket-Key-Enabled")}, "|"))
			w.Header().Set("ETag", `"e"`)
		}))
		b := openURL(t, "s3://bucket/p?region=us-east-1&endpoint="+store.URL+query)
		first := b.PutIfAbsent(t.Context(), "k", []byte("1"))
		second := b.PutIfMatch(t.Context(), "k", []byte("2"), `"e"`)
		if first.Outcome != storage.Committed || second.Outcome != storage.Committed {
			t.Errorf("%q: %+v, %+v", query, first, second)
		}
		if len(got) != 2 || got[0] != "* "+want || got[1] != `"e" `+want {
			t.Errorf("%q: got %q, want %q", query, got, want)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		store.Close()
	}
}

func TestWrongEncryption(t *testing.T) {
	for query, want := range map[string]string{
		"sse=aes": "must be s3, kms or kms-dsse", "sse-key=k": "needs sse=kms", "sse=s3&sse-key=k": "needs sse=kms", "sse=": "exactly one value",
	} {
		u, err := url.Parse("s3://bucket?region=x&" + query)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Open(t.Context(), u); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", query, err)
		}
	}
}
