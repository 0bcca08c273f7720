package attack

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/enroll"
	"osqueue/tests/cluster"
)

// enrolling is a node whose routes about certificates are attacked.
type enrolling struct {
	*testing.T
	c      *cluster.Cluster
	node   *cluster.Node
	client *http.Client
}

// send makes a request and returns its status and answer.
func (e *enrolling) send(method, path, token string, body []byte) (int, string) {
	e.Helper()
	r, err := http.NewRequestWithContext(e.Context(), method, "https://"+e.node.HTTP+path, bytes.NewReader(body))
	if err != nil {
		e.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := e.client.Do(r)
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	text, _ := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return resp.StatusCode, string(text)
}

// admin makes a request as admin, which must succeed.
func (e *enrolling) admin(path string, in, out any) {
	e.Helper()
	status, text := e.send(http.MethodPost, path, e.c.Token(), encoded(e.T, in))
	if status != http.StatusOK {
		e.Fatalf("%s: %d %s", path, status, text)
	}
	if err := json.Unmarshal([]byte(text), out); err != nil {
		e.Fatal(err)
	}
}

func encoded(t *testing.T, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func (e *enrolling) joinToken(name string, ttl time.Duration) enroll.Token {
	e.Helper()
	var made enroll.Made
	e.admin(enroll.TokenPath, enroll.NewToken{Node: name, Hosts: []string{"127.0.0.1"}, HTTP: "127.0.0.1:1", TTL: ttl.Milliseconds()}, &made)
	token, err := enroll.ParseToken(made.Token)
	if err != nil {
		e.Fatal(err)
	}
	return token
}

// requestOf makes a certificate request of a new key that names a node.
func requestOf(t *testing.T, name string) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}, key)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

// TestCertificateRoutes: the routes about certificates give nothing to strangers, to other roles,
// and to forged, used and expired tokens; the request of a token gets the name of its node only.
func TestCertificateRoutes(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1})
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	e := &enrolling{T: t, c: c, node: c.Nodes[0], client: &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: secure, DisableKeepAlives: true}}}
	before := resident(t, e.node, "VmRSS")
	unused, used, old := e.joinToken("n4", time.Hour), e.joinToken("n5", time.Hour), e.joinToken("n6", 3*time.Second) // less time could be over before it is made
	csr := func(secret string, request []byte) []byte {
		return encoded(t, enroll.CSR{Secret: secret, Request: request})
	}
	if status, text := e.send("POST", enroll.JoinPath, "", csr(used.Secret.Text, requestOf(t, "n1"))); status != http.StatusOK || !strings.Contains(text, `"pending":true`) {
		t.Fatalf("the first use of a token: %d %s", status, text)
	}
	var pending []enroll.Request
	e.admin(enroll.PendingPath, struct{}{}, &pending)
	if len(pending) != 1 || pending[0].Node != "n5" {
		t.Fatalf("a request that names another node: %+v", pending)
	}
	c.Eventually(patience, "the token of n6 to expire", func() error {
		if status, text := e.send("POST", enroll.JoinPath, "", csr(old.Secret.Text, nil)); status != http.StatusForbidden {
			return fmt.Errorf("%d %s", status, text)
		}
		return nil
	})
	broken := requestOf(t, "n4")
	broken[len(broken)-1] ^= 1
	var worker v1.TokenCreated
	e.admin(v1.PathTokens, json.RawMessage(`{"role":"operator"}`), &worker)
	signed := func(id string, der []byte) []byte { return encoded(t, enroll.Signed{ID: id, Certificate: der}) }
	huge := append([]byte(`{"secret":"`), bytes.Repeat([]byte("x"), 8<<20)...)
	for _, a := range []struct {
		name, method, path, token string
		body                      []byte
		want                      int
	}{
		{"a join token without a token", "POST", enroll.TokenPath, "", []byte(`{}`), 401},
		{"a join token as operator", "POST", enroll.TokenPath, worker.Token, []byte(`{}`), 403},
		{"a join token for ever", "POST", enroll.TokenPath, c.Token(), []byte(`{"node":"n9","http":"127.0.0.1:1","ttlMs":9223372036854775807}`), 400},
		{"a join token for a path", "POST", enroll.TokenPath, c.Token(), []byte(`{"node":"../n9","http":"127.0.0.1:1"}`), 400},
		{"the requests without a token", "POST", enroll.PendingPath, "", nil, 401},
		{"the requests as operator", "POST", enroll.PendingPath, worker.Token, []byte(`{}`), 403},
		{"a signature without a token", "POST", enroll.SignPath, "", signed(pending[0].ID, nil), 401},
		{"a signature as operator", "POST", enroll.SignPath, worker.Token, signed(pending[0].ID, nil), 403},
		{"a signature with a join token", "POST", enroll.SignPath, used.Secret.Text, signed(pending[0].ID, nil), 401},
		{"a signature of nothing", "POST", enroll.SignPath, c.Token(), signed("none", nil), 404},
		{"a forged certificate", "POST", enroll.SignPath, c.Token(), signed(pending[0].ID, forged(t, "n5")), 409},
		{"a renewal at the port of clients", "POST", enroll.RenewPath, c.Token(), csr("", requestOf(t, "n1")), 404},
		{"no secret", "POST", enroll.JoinPath, "", csr("", requestOf(t, "n4")), 403},
		{"a secret of another token", "POST", enroll.JoinPath, "", csr(auth.New().Text, requestOf(t, "n4")), 403},
		{"an access token as secret", "POST", enroll.JoinPath, "", csr(c.Token(), requestOf(t, "n4")), 403},
		{"a used token", "POST", enroll.JoinPath, "", csr(used.Secret.Text, requestOf(t, "n5")), 403},
		{"an expired token", "POST", enroll.JoinPath, "", csr(old.Secret.Text, requestOf(t, "n6")), 403},
		{"no request", "POST", enroll.JoinPath, "", csr(unused.Secret.Text, nil), 400},
		{"a request that is noise", "POST", enroll.JoinPath, "", csr(unused.Secret.Text, []byte("noise")), 400},
		{"a request with another signature", "POST", enroll.JoinPath, "", csr(unused.Secret.Text, broken), 400},
		{"a body that is no JSON", "POST", enroll.JoinPath, "", []byte("{"), 400},
		{"a huge body", "POST", enroll.JoinPath, "", huge, 400},
		{"GET", "GET", enroll.JoinPath, "", nil, 405},
	} {
		counted(t, 1)
		status, text := e.send(a.method, a.path, a.token, a.body)
		if status != a.want && (a.name != "a huge body" || status != 0) { // the node may close the connection first
			t.Errorf("%s: %d %s, want %d", a.name, status, text, a.want)
		}
	}
	e.wrongPin(unused)
	e.renewals()
	e.admin(enroll.PendingPath, struct{}{}, &pending)
	if len(pending) != 1 || pending[0].Node != "n5" {
		t.Errorf("after the attacks these requests are pending: %+v", pending)
	}
	if grown := resident(t, e.node, "VmRSS") - before; grown > memoryMax {
		t.Errorf("the node has grown by %d bytes", grown)
	}
	if _, err := c.Client.Enqueue(c.Context(answerMax), client.NewJob{Type: "bystander"}); err != nil {
		t.Errorf("the node does not serve others: %v", err)
	}
}

// forged makes a certificate of another CA.
func forged(t *testing.T, name string) []byte {
	t.Helper()
	dir := t.TempDir()
	a, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(certs.Request{Kind: certs.Node, Name: name, Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return cert.Raw
}

// wrongPin joins with a token that has another pin, as if a stranger answered for the cluster. The
// machine must send nothing.
func (e *enrolling) wrongPin(token enroll.Token) {
	e.Helper()
	token.Pins = []certs.Pin{{1}}
	ctx, cancel := context.WithTimeout(e.Context(), answerMax)
	defer cancel()
	j := enroll.Joiner{Token: token, Dir: e.TempDir()}
	if _, err := j.Join(ctx); err == nil || !strings.Contains(err.Error(), "does not match the join token") {
		e.Errorf("a wrong pin: %v", err)
	}
}

// renewals asks the port for nodes for a renewal, without a certificate and with one of a client.
func (e *enrolling) renewals() {
	e.Helper()
	a, err := certs.LoadAuthority(e.c.CertDir())
	if err != nil {
		e.Fatal(err)
	}
	if _, err := a.Issue(certs.Request{Kind: certs.Client, Name: "ci", Lifetime: time.Hour}, time.Now()); err != nil {
		e.Fatal(err)
	}
	at := func(name string) string { return filepath.Join(e.c.CertDir(), name) }
	for name, files := range map[string][2]string{"no certificate": {}, "the certificate of a client": {at("ci.crt"), at("ci.key")}} {
		secure, err := client.LoadTLS(at(certs.CAFile), files[0], files[1])
		if err != nil {
			e.Fatal(err)
		}
		secure.NextProtos = []string{"osqueue-peer/1"}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
		}
		c := &http.Client{Timeout: patience, Transport: &http.Transport{DialTLSContext: dial, DisableKeepAlives: true}}
		resp, err := c.Post("https://"+e.node.Raft+enroll.RenewPath, "application/json", bytes.NewReader(encoded(e.T, enroll.CSR{Request: requestOf(e.T, "n1")})))
		if err == nil {
			_ = resp.Body.Close()
			e.Errorf("a renewal with %s: %s", name, resp.Status)
		}
	}
}

// logMax is how much each log of a node may grow, in bytes, by requests of strangers.
const logMax = 256 << 10

// TestStrangersFillNoLog: refused connections and requests fill neither the log nor the audit log.
func TestStrangersFillNoLog(t *testing.T) {
	t.Parallel()
	audit := filepath.Join(t.TempDir(), "audit.log")
	c := cluster.Start(t, cluster.Options{TLS: true, Nodes: 1, Flags: []string{"--audit-log", audit}})
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	kept := &http.Client{Timeout: patience, Transport: &http.Transport{TLSClientConfig: secure}}
	e := &enrolling{T: t, c: c, node: c.Nodes[0], client: kept}
	t.Cleanup(kept.CloseIdleConnections)
	forgedJoin := func() []byte { return encoded(t, enroll.CSR{Secret: auth.New().Text, Request: []byte("noise")}) }
	size := func() int64 {
		info, err := os.Stat(audit)
		if err != nil {
			t.Fatal(err)
		}
		return int64(len(e.node.Log())) + info.Size()
	}
	for name, try := range map[string]func(){
		"plain HTTP": func() {
			_, _ = request(e.node.HTTP, "GET / HTTP/1.1\r\n\r\n", answerMax)
		},
		"requests without a token": func() {
			if status, text := e.send("GET", v1.PathJobs, "", nil); status != http.StatusUnauthorized {
				t.Fatalf("%d %s", status, text)
			}
		},
		"forged join tokens": func() {
			if status, text := e.send("POST", enroll.JoinPath, "", forgedJoin()); status != http.StatusForbidden {
				t.Fatalf("%d %s", status, text)
			}
		},
	} {
		counted(t, 1)
		before := size()
		for range 3000 {
			try()
		}
		e.admin(v1.PathTokens, json.RawMessage(`{"role":"reader"}`), &struct{}{})
		c.Eventually(patience, "the audit entry of a token", func() error {
			text, err := os.ReadFile(audit)
			if err != nil {
				return err
			}
			if line := text[bytes.LastIndexByte(bytes.TrimSpace(text), '\n')+1:]; !bytes.Contains(line, []byte("POST "+v1.PathTokens)) {
				return fmt.Errorf("the last line is %s", line)
			}
			return nil
		})
		if grown := size() - before; grown > logMax {
			t.Errorf("%s: the logs have grown by %d KiB", name, grown>>10)
		}
	}
}
