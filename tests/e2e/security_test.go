package e2e

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/internal/auth/certs"
	"osqueue/tests/cluster"
)

// A cluster moves from --security=off to log to on, and back, by rolling restarts under load.
// No request fails: those of a client without TLS while off and log, and those of a client with
// TLS and a token while log and on.
func TestSecurityIsSwitchedUnderLoad(t *testing.T) {
	t.Parallel()
	c := cluster.New(t, cluster.Options{TLS: true})
	mode := func(n *cluster.Node, to string) {
		n.Flags = []string{"--security=" + to}
		if to == "off" { // the last flag counts
			n.Flags = append(n.Flags, "--tls-ca=", "--tls-cert=", "--tls-key=")
		}
	}
	for _, n := range c.Nodes {
		mode(n, "off")
		n.Start()
	}
	plain, err := client.New(client.Config{Servers: c.Servers(), RetryFor: longPatience})
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	roll := func(to string, load *producer) {
		t.Helper()
		for _, n := range c.Nodes {
			if err := n.Stop(); err != nil {
				t.Fatal(err)
			}
			mode(n, to)
			n.Start()
			load.more(c)
		}
	}
	old := produce(t, plain)
	old.more(c)
	roll("log", old)
	secure := produce(t, c.Client)
	secure.more(c)
	old.stop()
	c.Eventually(longPatience, "the first token", func() error { // log answers without it
		if tokens, err := c.Client.Tokens(c.Context(time.Second)); err != nil || len(tokens) == 0 {
			return errors.Join(errors.New("there is none"), err)
		}
		return nil
	})
	roll("on", secure)
	refused, err := client.New(client.Config{Servers: c.Servers(), RetryFor: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer refused.Close()
	if _, err := refused.Stats(c.Context(longPatience)); err == nil {
		t.Error("a client without TLS is served with --security=on")
	}
	roll("log", secure)
	again := produce(t, plain)
	again.more(c)
	secure.stop()
	roll("off", again)
	again.stop()
}

// A revoked node is out within 1 s: nodes close its connections and accept no new ones, and it
// is no longer a member. With a certificate that was issued afterwards it comes back.
func TestARevokedNodeIsOut(t *testing.T) {
	c := cluster.Start(t, cluster.Options{TLS: true})
	if _, err := c.Client.Enqueue(c.Context(longPatience), client.NewJob{Type: "t"}); err != nil {
		t.Fatal(err)
	}
	n := c.Follower()
	var others []*cluster.Node
	for _, other := range c.Nodes {
		if other != n {
			others = append(others, other)
		}
	}
	stolen := make([]net.Conn, len(others))
	for i, other := range others {
		stolen[i] = nodeConn(t, c, n.Name, other)
		defer stolen[i].Close()
	}
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte(c.Token()), 0o600); err != nil {
		t.Fatal(err)
	}
	binary, err := cluster.Binary()
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(binary, "cert", "revoke", n.Name, "--yes", "--servers", strings.Join(c.Servers(), ","),
		"--ca", filepath.Join(c.CertDir(), certs.CAFile), "--token-file", token).CombinedOutput()
	revoked := time.Now()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for i, other := range others { // the deadline is the same for all
		_ = stolen[i].SetReadDeadline(revoked.Add(time.Second + 500*time.Millisecond)) // a second, and what a busy machine adds
		if _, err := stolen[i].Read(make([]byte, 1)); err == nil || os.IsTimeout(err) {
			t.Errorf("the connection of the revoked node to %s is open after 1.5s: %v", other.Name, err)
		}
	}
	for _, other := range others {
		conn := nodeConn(t, c, n.Name, other)
		_ = conn.SetDeadline(time.Now().Add(longPatience))
		if _, err := fmt.Fprintf(conn, "GET /cluster/v1/identity HTTP/1.1\r\nHost: x\r\n\r\n"); err == nil {
			if _, err := conn.Read(make([]byte, 1)); err == nil {
				t.Errorf("%s answers the revoked node", other.Name)
			}
		}
		_ = conn.Close()
	}
	s, err := c.WaitOtherLeader(n).Status()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range s.Peers {
		if p.Name == n.Name {
			t.Errorf("%s is a member", n.Name)
		}
	}
	n.Kill()
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Renew(n.Name, 0, time.Now()); err != nil { // in the second of the revocation
		t.Fatal(err)
	}
	n.Wipe()
	if _, err := c.Client.AddMember(c.Context(longPatience), newMember(n, n.HTTP)); err != nil {
		t.Fatal(err)
	}
	n.Start()
	follows(c, n)
}

// nodeConn makes a connection for calls of peers with the certificate of a node.
func nodeConn(t *testing.T, c *cluster.Cluster, name string, to *cluster.Node) net.Conn {
	t.Helper()
	pair, err := tls.LoadX509KeyPair(filepath.Join(c.CertDir(), name+".crt"), filepath.Join(c.CertDir(), name+".key"))
	if err != nil {
		t.Fatal(err)
	}
	secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
	if err != nil {
		t.Fatal(err)
	}
	secure.Certificates, secure.NextProtos = []tls.Certificate{pair}, []string{"osqueue-peer/1"}
	conn, err := tls.Dial("tcp", to.Raft, secure)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// The node port answers only nodes of its CA: no plain connection, no other CA, no client
// certificate, no expired certificate.
func TestTheNodePortIsForNodes(t *testing.T) {
	t.Parallel()
	c := cluster.Share(t, cluster.Options{TLS: true, Nodes: 1})
	n := c.Nodes[0]
	a, err := certs.LoadAuthority(c.CertDir())
	if err != nil {
		t.Fatal(err)
	}
	foreignDir := t.TempDir()
	foreign, err := certs.CreateAuthority(foreignDir, certs.CALifetime, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	issue := func(a *certs.Authority, dir, name string, kind certs.Kind, at time.Time) *http.Client {
		t.Helper()
		r := certs.Request{Kind: kind, Name: name, Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}
		if _, err := a.Issue(r, at); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.LoadX509KeyPair(filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key"))
		if err != nil {
			t.Fatal(err)
		}
		secure, err := client.LoadTLS(filepath.Join(c.CertDir(), certs.CAFile), "", "")
		if err != nil {
			t.Fatal(err)
		}
		secure.Certificates, secure.NextProtos = []tls.Certificate{pair}, []string{"osqueue-peer/1"}
		dial := func(ctx context.Context, network, address string) (net.Conn, error) {
			return (&tls.Dialer{Config: secure}).DialContext(ctx, network, address)
		}
		return &http.Client{Transport: &http.Transport{DialTLSContext: dial, DisableKeepAlives: true}, Timeout: longPatience}
	}
	for name, stranger := range map[string]*http.Client{
		"another CA":       issue(foreign, foreignDir, "n1", certs.Node, time.Now()),
		"a client":         issue(a, c.CertDir(), c.Own("ci"), certs.Client, time.Now()),
		"an expired node":  issue(a, c.CertDir(), c.Own("n8"), certs.Node, time.Now().Add(-2*time.Hour)),
		"not in the peers": issue(a, c.CertDir(), c.Own("n7"), certs.Node, time.Now()),
		"without TLS":      {Timeout: longPatience},
	} {
		url := "https://" + n.Raft
		if stranger.Transport == nil {
			url = "http://" + n.Raft
		}
		if resp, err := stranger.Get(url + "/cluster/v1/identity"); err == nil {
			_ = resp.Body.Close()
			t.Errorf("%s gets %s", name, resp.Status)
		}
	}
}
