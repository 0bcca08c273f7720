package gcs

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// xmlStore is a store with the XML API, as far as signed requests use it. It checks signatures as the page on
// canonical requests of Cloud Storage says, and what the driver asks for in headers.
type xmlStore struct {
	key *rsa.PublicKey

	mu      sync.Mutex
	objects map[string][]byte
}

func (s *xmlStore) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		return
	}
	if err := s.verify(r); err != nil {
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	data, exists := s.objects[r.URL.Path]
	switch {
	case r.Method == http.MethodGet && !exists:
		w.WriteHeader(http.StatusNotFound)
	case r.Method == http.MethodGet:
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(data))
	case r.Header.Get("X-Goog-Content-Length-Range") != fmt.Sprintf("%d,%d", len(body), len(body)):
		w.WriteHeader(http.StatusBadRequest)
	case r.Header.Get("X-Goog-If-Generation-Match") == "0" && exists:
		w.WriteHeader(http.StatusPreconditionFailed)
	default:
		s.objects[r.URL.Path] = body
	}
}

// verify checks the signature of a request, and its age.
func (s *xmlStore) verify(r *http.Request) error {
	q := r.URL.Query()
	signature, err := hex.DecodeString(q.Get("X-Goog-Signature"))
	if err != nil {
		return err
	}
	q.Del("X-Goog-Signature")
	at, err := time.Parse("20060102T150405Z", q.Get("X-Goog-Date"))
	if err != nil {
		return err
	}
	if seconds, err := strconv.Atoi(q.Get("X-Goog-Expires")); err != nil || time.Since(at) > time.Duration(seconds)*time.Second {
		return errors.New("expired")
	}
	names := strings.Split(q.Get("X-Goog-SignedHeaders"), ";")
	for name := range r.Header {
		if name = strings.ToLower(name); strings.HasPrefix(name, "x-goog-") && !slices.Contains(names, name) {
			return fmt.Errorf("header %s is not signed", name)
		}
	}
	host, _, _ := strings.Cut(r.Host, ":")
	payload := "UNSIGNED-PAYLOAD"
	canonical := []string{r.Method, r.URL.EscapedPath(), strings.ReplaceAll(q.Encode(), "+", "%20")}
	for _, name := range names {
		value := r.Header.Get(name)
		switch name {
		case "host":
			value = host
		case "x-goog-content-sha256":
			payload = value
		}
		canonical = append(canonical, name+":"+value)
	}
	canonical = append(canonical, "", strings.Join(names, ";"), payload)
	digest := sha256.Sum256([]byte(strings.Join(canonical, "\n")))
	_, scope, _ := strings.Cut(q.Get("X-Goog-Credential"), "/")
	text := sha256.Sum256([]byte(strings.Join([]string{"GOOG4-RSA-SHA256", q.Get("X-Goog-Date"), scope, hex.EncodeToString(digest[:])}, "\n")))
	return rsa.VerifyPKCS1v15(s.key, crypto.SHA256, text[:], signature)
}

func TestSigned(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(&xmlStore{key: &key.PublicKey, objects: map[string][]byte{}})
	defer server.Close()
	file := filepath.Join(t.TempDir(), "account.json")
	writeAccount(t, file, "osqueue@project.iam.gserviceaccount.com", server.URL, key)
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	b := openAuthorized(t, server.URL)
	defer b.Close()
	storagetest.Signs(t, b, false)
	b.key = "projects/a/cryptoKeys/b"
	signed, err := b.SignPut(t.Context(), "k", storage.Content{}, time.Minute)
	if got := signed.Header.Get("X-Goog-Encryption-Kms-Key-Name"); err != nil || got != b.key {
		t.Errorf("the key of the encryption is %q, %v", got, err)
	}
}

// Without the key of a service account nothing is signed: the caller transfers the bytes itself.
func TestWhatCannotSign(t *testing.T) {
	emulator := openURL(t, "gs://bucket?endpoint=http://127.0.0.1:1")
	defer emulator.Close()
	user := filepath.Join(t.TempDir(), "user.json")
	if err := os.WriteFile(user, []byte(`{"type":"authorized_user","client_id":"a","client_secret":"b","refresh_token":"c"}`), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", user)
	ofUser := openAuthorized(t, "http://127.0.0.1:1")
	defer ofUser.Close()
	for name, b := range map[string]*Bucket{"emulator": emulator, "user": ofUser} {
		_, err1 := b.SignPut(t.Context(), "k", storage.Content{}, time.Hour)
		_, err2 := b.SignGet(t.Context(), "k", time.Hour)
		if !errors.Is(err1, errors.ErrUnsupported) || !errors.Is(err2, errors.ErrUnsupported) {
			t.Errorf("%s: %v, %v", name, err1, err2)
		}
	}
}
