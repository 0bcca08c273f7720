package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// identityRules give a role to the JWTs of one group and to one client certificate.
const identityRules = `
- {from: oidc, match: {groups: builders}, role: producer, types: ["ci.*"]}
- {from: cert, match: {name: w1}, role: worker}
`

// JWTs and client certificates are identities on each node, also on those that forward the request
// to the leader, with the rights of their rules and no more, and JWTs also while the provider is
// away.
func TestJWTsAndClientCertificates(t *testing.T) {
	t.Parallel()
	p := newIssuer(t)
	rules := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(rules, []byte(identityRules), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{TLS: true, Flags: []string{
		"--roles-file", rules, "--oidc-issuer", p.server.URL, "--oidc-audience", "queue",
	}})
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"w1", "w2"} {
		if _, err := a.Issue(certs.Request{Kind: certs.Client, Name: name, Lifetime: time.Hour}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	foreign := t.TempDir()
	other, err := certs.CreateAuthority(foreign, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.Issue(certs.Request{Kind: certs.Client, Name: "w1", Lifetime: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	// withCert returns a client with the certificate NAME of a directory; "": without one.
	withCert := func(dir, name string) *http.Client {
		t.Helper()
		cert, key := "", ""
		if name != "" {
			cert, key = filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		}
		secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), cert, key)
		if err != nil {
			t.Fatal(err)
		}
		if name != "" { // it is sent to every server, also one that trusts another CA
			pair, err := tls.LoadX509KeyPair(cert, key)
			if err != nil {
				t.Fatal(err)
			}
			secure.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &pair, nil }
		}
		return &http.Client{Timeout: longPatience, Transport: &http.Transport{DisableKeepAlives: true, TLSClientConfig: secure}}
	}
	const refusedByTLS = 0
	none, w1, w2 := withCert("", ""), withCert(c.CertDir(), "w1"), withCert(c.CertDir(), "w2")
	stranger := withCert(foreign, "w1")
	good := p.token(t, p.key, "builders", time.Hour)
	ofOther := p.token(t, newIssuer(t).key, "builders", time.Hour)
	const enqueue, claim = `{"type":"ci.build"}`, `{"workerId":"w","max":1,"types":["ci.build"]}`
	check := func(n *cluster.Node, what string, hc *http.Client, token, path, body string, want int) {
		t.Helper()
		req, err := http.NewRequestWithContext(c.Context(longPatience), http.MethodPost, "https://"+n.HTTP+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		if token != "" {
			req.Header.Set("Authorization", "Bearer "+token)
		}
		resp, err := hc.Do(req)
		if err != nil {
			if want != refusedByTLS {
				t.Errorf("%s, %s: %v", n.Name, what, err)
			}
			return
		}
		defer resp.Body.Close()
		if resp.StatusCode != want {
			t.Errorf("%s, %s: %s, want %d", n.Name, what, resp.Status, want)
		}
	}
	for _, n := range c.Nodes {
		check(n, "a JWT", none, good, "/v1/jobs", enqueue, http.StatusOK)
		check(n, "a JWT for another type", none, good, "/v1/jobs", `{"type":"mail"}`, http.StatusForbidden)
		check(n, "a JWT of a producer that claims", none, good, "/v1/jobs/claim", claim, http.StatusForbidden)
		check(n, "a JWT without a rule", none, p.token(t, p.key, "guests", time.Hour), "/v1/jobs", enqueue, http.StatusForbidden)
		check(n, "an expired JWT", none, p.token(t, p.key, "builders", -time.Hour), "/v1/jobs", enqueue, http.StatusUnauthorized)
		check(n, "a JWT of another key", none, ofOther, "/v1/jobs", enqueue, http.StatusUnauthorized)
		check(n, "no credential", none, "", "/v1/jobs", enqueue, http.StatusUnauthorized)
		check(n, "a certificate", w1, "", "/v1/jobs/claim", claim, http.StatusOK)
		check(n, "a certificate of a worker that enqueues", w1, "", "/v1/jobs", enqueue, http.StatusForbidden)
		check(n, "a certificate without a rule", w2, "", "/v1/jobs/claim", claim, http.StatusForbidden)
		check(n, "a certificate of another CA", stranger, "", "/v1/jobs/claim", claim, refusedByTLS)
	}
	p.server.Close()
	for _, n := range c.Nodes {
		check(n, "a JWT while the provider is away", none, good, "/v1/jobs", enqueue, http.StatusOK)
	}
}

// issuer is an OpenID Connect provider with one key.
type issuer struct {
	server *httptest.Server
	key    *ecdsa.PrivateKey
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	point, err := key.PublicKey.Bytes() // 4, X, Y
	if err != nil {
		t.Fatal(err)
	}
	p := &issuer{key: key}
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/.well-known/openid-configuration" {
			_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.server.URL, "jwks_uri": p.server.URL + "/keys"})
			return
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": []any{map[string]string{
			"kty": "EC", "crv": "P-256", "kid": "k", "alg": "ES256", "use": "sig", "x": encode(point[1:33]), "y": encode(point[33:]),
		}}})
	}))
	t.Cleanup(p.server.Close)
	return p
}

func encode(data []byte) string { return base64.RawURLEncoding.EncodeToString(data) }

// token returns a JWT of this issuer, signed with a key, for a group.
func (p *issuer) token(t *testing.T, key *ecdsa.PrivateKey, group string, life time.Duration) string {
	t.Helper()
	now := time.Now()
	claims, err := json.Marshal(map[string]any{
		"iss": p.server.URL, "aud": "queue", "sub": "build-1", "groups": []string{group},
		"iat": now.Add(-2 * time.Hour).Unix(), "exp": now.Add(life).Unix(),
	})
	if err != nil {
		t.Fatal(err)
	}
	text := encode([]byte(`{"alg":"ES256","kid":"k","typ":"JWT"}`)) + "." + encode(claims)
	sum := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, key, sum[:])
	if err != nil {
		t.Fatal(err)
	}
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + encode(signature)
}
