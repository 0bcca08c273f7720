package client

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"
)

// writePair writes a certificate of its own CA with a serial number.
func writePair(t *testing.T, certFile, keyFile string, serial int64) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: "ci"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	check(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	check(t, err)
	for file, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: secret}} {
		check(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
}

// A renewed client certificate is used for the next connection, without a restart. While the files
// do not match, the previous certificate stays.
func TestARenewedCertificateIsUsed(t *testing.T) {
	t.Parallel()
	var seen atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		seen.Store(r.TLS.PeerCertificates[0].SerialNumber.Int64())
	}))
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	server.StartTLS()
	t.Cleanup(server.Close)
	dir := t.TempDir()
	certFile, keyFile := filepath.Join(dir, "ci.crt"), filepath.Join(dir, "ci.key")
	writePair(t, certFile, keyFile, 1)
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	secure, err := TLSOf(ca, certFile, keyFile)
	check(t, err)
	hc := &http.Client{Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}
	expect := func(serial int64) {
		t.Helper()
		resp, err := hc.Get(server.URL)
		check(t, err)
		_ = resp.Body.Close()
		if got := seen.Load(); got != serial {
			t.Errorf("the server saw certificate %d, want %d", got, serial)
		}
	}
	expect(1)
	old, err := os.ReadFile(keyFile)
	check(t, err)
	writePair(t, certFile, keyFile, 2)
	fresh, err := os.ReadFile(keyFile)
	check(t, err)
	check(t, os.WriteFile(keyFile, old, 0o600))
	expect(1) // the key does not match yet
	check(t, os.WriteFile(keyFile, fresh, 0o600))
	expect(2)
}
