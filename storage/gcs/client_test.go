package gcs

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"osqueue/storage"
	"osqueue/storage/internal/remote"
)

// TestCredentials lets the driver find a service account, and checks the token of its requests.
func TestCredentials(t *testing.T) {
	mux := http.NewServeMux()
	server := httptest.NewServer(mux)
	defer server.Close()
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{"access_token":"secret","token_type":"Bearer","expires_in":3600}`)
	})
	mux.HandleFunc("GET /storage/v1/b/bucket/o/k", func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Authorization"); got != "Bearer secret" {
			t.Errorf("authorized by %q", got)
		}
		if got := r.Header.Get("X-Goog-User-Project"); got != "payer" {
			t.Errorf("project %q", got)
		}
		w.Header().Set("X-Goog-Generation", "7")
		fmt.Fprint(w, "data")
	})
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", serviceAccount(t, server.URL+"/token"))
	b := openAuthorized(t, server.URL)
	defer b.Close()
	if base, err := (&rotating{}).store(t.Context()); err != nil || base != "https://storage.googleapis.com" {
		t.Errorf("the store is at %s, %v", base, err)
	}
	o, err := b.Get(t.Context(), "k")
	if err != nil || string(o.Data) != "data" || o.Version != "7" {
		t.Errorf("%q, version %q, %v", o.Data, o.Version, err)
	}
}

// openAuthorized opens a bucket of the store at base, with the default credentials.
func openAuthorized(t *testing.T, base string) *Bucket {
	t.Helper()
	transport := http.DefaultTransport.(*http.Transport).Clone()
	b, err := open(t.Context(), remote.Location{Scheme: "gs", Bucket: "bucket"}, base, &rotating{next: transport}, transport)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestWritesAreSentOnce answers a write by what the client repeats in other calls, and by a redirect.
func TestWritesAreSentOnce(t *testing.T) {
	status, writes := 0, 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		writes++
		w.Header().Set("Location", r.URL.String())
		w.WriteHeader(status)
	}))
	defer server.Close()
	b := openURL(t, "gs://bucket?endpoint="+server.URL)
	defer b.Close()
	for _, status = range []int{307, 308, 408, 429, 500, 503} {
		writes = 0
		if w := b.PutIfMatch(t.Context(), "k", []byte("1"), "7"); w.Outcome != storage.Unknown || w.Err == nil || writes != 1 {
			t.Errorf("%d: %s, %v after %d requests", status, w.Outcome, w.Err, writes)
		}
	}
}

// serviceAccount writes the key of a service account, whose tokens come from tokenURL.
func serviceAccount(t *testing.T, tokenURL string) (file string) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "client_email": "queue@example.org", "quota_project_id": "payer", "token_uri": tokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "key.json")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestPages reads a listing of two pages.
func TestPages(t *testing.T) {
	pages := map[string]string{
		"":  `{"kind":"storage#objects","nextPageToken":"x","items":[{"name":"p/a","size":"1"},{"name":"p/b","size":"22"}]}`,
		"x": `{"kind":"storage#objects","items":[{"name":"p/c","size":"3"}]}`,
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, pages[r.URL.Query().Get("pageToken")])
	}))
	defer server.Close()
	b := openURL(t, "gs://bucket/p?endpoint="+server.URL)
	defer b.Close()
	var got []storage.Info
	list := func() error {
		return b.List(context.Background(), "", func(i storage.Info) bool { got = append(got, i); return true })
	}
	if err := list(); err != nil || !slices.Equal(got, []storage.Info{{Key: "a", Size: 1}, {Key: "b", Size: 22}, {Key: "c", Size: 3}}) {
		t.Errorf("%v, %v", got, err)
	}
}

// TestBytesThatDoNotMatchTheirSum reads an object that was changed on its way once.
func TestBytesThatDoNotMatchTheirSum(t *testing.T) {
	reads := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Goog-Generation", "1")
		w.Header().Set("X-Goog-Hash", "crc32c=yZRlqg==,md5=x") // of "hello world"
		if reads++; reads == 1 {
			fmt.Fprint(w, "hello wurld")
			return
		}
		fmt.Fprint(w, "hello world")
	}))
	defer server.Close()
	b := openURL(t, "gs://bucket?endpoint="+server.URL)
	defer b.Close()
	if o, err := b.Get(t.Context(), "k"); err != nil || string(o.Data) != "hello world" || reads != 2 {
		t.Errorf("%q after %d reads, %v", o.Data, reads, err)
	}
}

func TestWritesNameTheKey(t *testing.T) {
	var got []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		got = append(got, r.URL.Query().Get("ifGenerationMatch")+" "+r.URL.Query().Get("kmsKeyName"))
		_, _ = io.WriteString(w, `{"generation":"7"}`)
	}))
	defer server.Close()
	u, err := url.Parse("gs://bucket?endpoint=" + server.URL + "&kms-key=projects/a/cryptoKeys/b")
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	first := b.PutIfAbsent(t.Context(), "k", []byte("1"))
	second := b.PutIfMatch(t.Context(), "k", []byte("2"), first.Version)
	if first.Err != nil || second.Err != nil {
		t.Fatalf("%+v, %+v", first, second)
	}
	if want := []string{"0 projects/a/cryptoKeys/b", "7 projects/a/cryptoKeys/b"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
