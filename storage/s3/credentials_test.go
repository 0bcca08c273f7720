package s3

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"osqueue/internal/sleep"
	"osqueue/internal/storagetest"
	"osqueue/storage"
)

// TestRotatedCredentials replaces the key in the shared credentials file. The store refuses the
// old key in several ways; writes and reads work again without a restart.
func TestRotatedCredentials(t *testing.T) {
	for name, c := range map[string]struct {
		status int
		code   string
	}{
		"403 InvalidAccessKeyId": {http.StatusForbidden, "InvalidAccessKeyId"},
		"401":                    {http.StatusUnauthorized, ""},
		"400 ExpiredToken":       {http.StatusBadRequest, "ExpiredToken"},
	} {
		t.Run(name, func(t *testing.T) {
			storagetest.S3Credentials(t)
			file := filepath.Join(t.TempDir(), "credentials")
			useFile(t, file)
			writeKey(t, file, "OLDKEY")
			store := &keyed{status: c.status, code: c.code}
			store.allow("OLDKEY")
			server := httptest.NewServer(store)
			defer server.Close()
			defer server.CloseClientConnections()
			b := openURL(t, "s3://bucket?region=us-east-1&endpoint="+server.URL)
			defer b.Close()

			if w := b.PutIfAbsent(t.Context(), "k", []byte("a")); w.Outcome != storage.Committed {
				t.Fatalf("before the rotation: %s, %v", w.Outcome, w.Err)
			}
			store.allow("NEWKEY")
			if w := b.PutIfAbsent(t.Context(), "k", []byte("a")); w.Outcome != storage.Unknown || w.Err == nil {
				t.Fatalf("with the old key: %s, %v", w.Outcome, w.Err)
			}
			writeKey(t, file, "NEWKEY")
			began := time.Now()
			for {
				w := b.PutIfAbsent(t.Context(), "k", []byte("a"))
				if w.Outcome == storage.Committed {
					break
				}
				if time.Since(began) > 5*time.Second {
					t.Fatalf("5 s after the rotation: %s, %v", w.Outcome, w.Err)
				}
				sleep.For(t.Context(), 50*time.Millisecond)
			}
			if _, err := b.Get(t.Context(), "k"); err != nil {
				t.Error(err)
			}
		})
	}
}

// useFile makes a shared credentials file the only source of credentials.
func useFile(t *testing.T, file string) {
	t.Helper()
	for _, name := range []string{"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"} {
		t.Setenv(name, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", file)
	t.Setenv("AWS_EC2_METADATA_DISABLED", "true")
}

func writeKey(t *testing.T, file, key string) {
	t.Helper()
	text := fmt.Sprintf("[default]\naws_access_key_id = %s\naws_secret_access_key = secret\n", key)
	if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		t.Fatal(err)
	}
}

// keyed is a store that accepts one access key, and refuses every other one.
type keyed struct {
	status int
	code   string
	key    atomic.Value
}

func (s *keyed) allow(key string) { s.key.Store(key) }

func (s *keyed) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !strings.Contains(r.Header.Get("Authorization"), "Credential="+s.key.Load().(string)+"/") {
		w.WriteHeader(s.status)
		if s.code != "" {
			fmt.Fprintf(w, "<Error><Code>%s</Code><Message>no</Message></Error>", s.code)
		}
		return
	}
	w.Header().Set("ETag", md5A)
	if r.Method == http.MethodGet {
		_, _ = io.WriteString(w, "a")
	}
}
