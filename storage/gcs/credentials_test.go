package gcs

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
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
	"osqueue/storage"
)

// TestRotatedCredentials replaces the service account's key in its file. The store refuses
// tokens of the old account; writes work again without a restart.
func TestRotatedCredentials(t *testing.T) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	var allowed atomic.Value
	allowed.Store("old@x")
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/token" { // the token is the account of the assertion
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":3600}`, issuer(r))
			return
		}
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Header.Get("Authorization") != "Bearer "+allowed.Load().(string) {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		_, _ = io.WriteString(w, `{"generation":"7"}`)
	}))
	defer server.Close()
	defer server.CloseClientConnections()

	file := filepath.Join(t.TempDir(), "account.json")
	t.Setenv("GOOGLE_APPLICATION_CREDENTIALS", file)
	writeAccount(t, file, "old@x", server.URL+"/token", key)
	b := openAuthorized(t, server.URL)
	defer b.Close()

	if w := b.PutIfAbsent(t.Context(), "k", []byte("a")); w.Outcome != storage.Committed {
		t.Fatalf("before the rotation: %s, %v", w.Outcome, w.Err)
	}
	allowed.Store("new@x")
	if w := b.PutIfAbsent(t.Context(), "k", []byte("a")); w.Outcome != storage.Unknown || w.Err == nil {
		t.Fatalf("with the old account: %s, %v", w.Outcome, w.Err)
	}
	writeAccount(t, file, "new@x", server.URL+"/token", key)
	began := time.Now()
	for {
		w := b.PutIfAbsent(t.Context(), "k", []byte("a"))
		if w.Outcome == storage.Committed {
			return
		}
		if time.Since(began) > 5*time.Second {
			t.Fatalf("5 s after the rotation: %s, %v", w.Outcome, w.Err)
		}
		sleep.For(t.Context(), 50*time.Millisecond)
	}
}

// issuer returns the account that signed the assertion of a request for a token.
func issuer(r *http.Request) string {
	parts := strings.Split(r.FormValue("assertion"), ".")
	if len(parts) < 2 {
		return ""
	}
	var claims struct {
		Iss string `json:"iss"`
	}
	data, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(data, &claims) != nil {
		return ""
	}
	return claims.Iss
}

func writeAccount(t *testing.T, file, email, tokenURL string, key *rsa.PrivateKey) {
	t.Helper()
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": "p", "client_email": email, "private_key_id": "1", "token_uri": tokenURL,
		"private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, data, 0o600); err != nil {
		t.Fatal(err)
	}
}
