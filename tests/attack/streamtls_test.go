package attack

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// TestStreamsOverTLS attacks streams over TLS at a follower, which has to forward the certificate or the token.
func TestStreamsOverTLS(t *testing.T) {
	rules := filepath.Join(t.TempDir(), "roles.yaml")
	if err := os.WriteFile(rules, []byte("- from: cert\n  match: {name: producer}\n  role: producer\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c := cluster.Start(t, cluster.Options{Nodes: 3, TLS: true, Flags: []string{"--security", "on", "--roles-file", rules}})
	leader := c.WaitLeader()
	n := c.Nodes[0]
	if n == leader {
		n = c.Nodes[1]
	}
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"producer", "stranger"} {
		if _, err := a.Issue(certs.Request{Kind: certs.Client, Name: name, Lifetime: time.Hour}, time.Now()); err != nil {
			t.Fatal(err)
		}
	}
	open := func(t *testing.T, cert, token string) (*framePeer, int) {
		t.Helper()
		at := func(name string) string { return filepath.Join(c.CertDir(), name) }
		var pair [2]string
		if cert != "" {
			pair = [2]string{at(cert + ".crt"), at(cert + ".key")}
		}
		secure, err := client.LoadTLS(at(certs.CAFile), pair[0], pair[1])
		if err != nil {
			t.Fatal(err)
		}
		secure.NextProtos = []string{"http/1.1"}
		conn, err := tls.Dial("tcp", n.HTTP, secure)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		p := &framePeer{Conn: conn, in: bufio.NewReader(conn)}
		headers := ""
		if token != "" {
			headers = bearer(token)
		}
		p.put([]byte(upgradeText(n.HTTP, headers)))
		r, err := http.ReadResponse(p.in, nil) //nolint:bodyclose // an upgrade has no body: the frames follow
		if err != nil {
			t.Fatal(err)
		}
		return p, r.StatusCode
	}
	job := &frame.Request{Target: v1.PathJobs, Body: []byte(`{"type":"tls"}`)}
	ask := func(t *testing.T, cert, token string, want int) {
		t.Helper()
		p, status := open(t, cert, token)
		if status == http.StatusSwitchingProtocols {
			p.put(helloFrame)
			got, err := p.ask(1, job)
			if err != nil {
				t.Fatal(err)
			}
			status = int(got.Status)
		}
		if status != want {
			t.Errorf("certificate %q: answered %d, want %d", cert, status, want)
		}
	}
	t.Run("credentials", func(t *testing.T) {
		ask(t, "", c.Token(), http.StatusOK)
		ask(t, "producer", "", http.StatusOK)
		ask(t, "producer", "osq_wrong_token", http.StatusUnauthorized) // a token counts before the certificate
		ask(t, "stranger", "", http.StatusForbidden)                   // no role
		ask(t, "", "", http.StatusUnauthorized)
	})
	for name, b := range map[string][]byte{
		"a request before the hello":   frames(1, frame.KindRequest, job),
		"a hello that is no message":   frames(1, frame.KindHello, frame.Bytes("\xff\xff\xff")),
		"a hello of 1 GiB":             frame.AppendHead(nil, frame.Head{Length: 1 << 30, Kind: frame.KindHello}),
		"a hello with a large agent":   frames(1, frame.KindHello, &frame.Hello{Version: 1, Agent: string(make([]byte, 60<<10))}),
		"a request that is no message": append(bytes.Clone(helloFrame), frames(1, frame.KindRequest, frame.Bytes("\x0a\xff"))...),
		"garbage":                      bytes.Repeat([]byte{0xff}, 4096),
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := open(t, "", c.Token())
			p.put(b)
			p.ends(t)
		})
	}
	t.Run("many that say nothing", func(t *testing.T) {
		for range 100 {
			p, _ := open(t, "", c.Token())
			p.put(helloFrame[:5])
		}
		ask(t, "", c.Token(), http.StatusOK)
	})
	for _, n := range c.Nodes {
		if !n.Running() {
			t.Errorf("%s has ended", n.Name)
		}
	}
}
