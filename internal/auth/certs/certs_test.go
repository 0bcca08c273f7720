package certs_test

import (
	"crypto/tls"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/internal/auth/certs"
)

var now = time.Now()

func newAuthority(t *testing.T) (a *certs.Authority, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "certs")
	a, err := certs.CreateAuthority(dir, certs.CALifetime, now)
	check(t, err)
	return a, dir
}

func issue(t *testing.T, a *certs.Authority, r certs.Request) {
	t.Helper()
	if r.Lifetime == 0 {
		r.Lifetime = time.Hour
	}
	if _, err := a.Issue(r, now); err != nil {
		t.Fatal(err)
	}
}

func node(name string) certs.Request {
	return certs.Request{Kind: certs.Node, Name: name, Hosts: []string{"127.0.0.1"}}
}

func files(dir, name string) certs.Files {
	return certs.Files{
		CA:   filepath.Join(dir, certs.CAFile),
		Cert: filepath.Join(dir, name+".crt"),
		Key:  filepath.Join(dir, name+".key"),
	}
}

func load(t *testing.T, f certs.Files) *certs.Identity {
	t.Helper()
	id, err := certs.Load(f, func(err error) {
		if err != nil {
			t.Error(err)
		}
	})
	check(t, err)
	return id
}

// dial connects client to a listener of server, and returns what each end says of the
// handshake.
func dial(t *testing.T, server, client *certs.Identity, verify func(tls.ConnectionState) error) (atServer, atClient error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	check(t, err)
	defer l.Close()
	done := make(chan error, 1)
	go func() {
		c, err := l.Accept()
		if err != nil {
			done <- err
			return
		}
		defer c.Close()
		done <- tls.Server(c, server.Server(tls.RequireAndVerifyClientCert, verify, "p")).HandshakeContext(t.Context())
	}()
	raw, err := net.Dial("tcp", l.Addr().String())
	check(t, err)
	c, err := client.ToNode(t.Context(), raw, l.Addr().String(), "p")
	if err == nil {
		defer c.Close()
	}
	return <-done, err
}

func TestKeysArePrivate(t *testing.T) {
	a, dir := newAuthority(t)
	issue(t, a, node("n1"))
	for _, name := range []string{"ca.key", "n1.key"} {
		info, err := os.Stat(filepath.Join(dir, name))
		check(t, err)
		if info.Mode().Perm() != 0o600 {
			t.Errorf("%s has the permissions %v", name, info.Mode().Perm())
		}
	}
}

func TestCreateAuthorityKeepsAnExistingOne(t *testing.T) {
	a, dir := newAuthority(t)
	if _, err := certs.CreateAuthority(dir, certs.CALifetime, now); err == nil || !strings.Contains(err.Error(), "--rotate") {
		t.Errorf("got %v", err)
	}
	again, err := certs.LoadAuthority(dir)
	if err != nil || !again.Certificates()[0].Equal(a.Certificates()[0]) {
		t.Errorf("the CA has changed (%v)", err)
	}
}

func TestIssueRefuses(t *testing.T) {
	a, _ := newAuthority(t)
	issue(t, a, certs.Request{Kind: certs.Client, Name: "ci"})
	for name, r := range map[string]certs.Request{
		"an empty name":      node(""),
		"a path":             node("../n1"),
		"a hidden file":      node(".n1"),
		"the CA's name":      node("ca"),
		"another kind":       node("ci"),
		"a node's no host":   {Kind: certs.Node, Name: "n1", Lifetime: time.Hour},
		"a host with a port": {Kind: certs.Node, Name: "n1", Hosts: []string{"n1:80"}, Lifetime: time.Hour},
		"no lifetime":        {Kind: certs.Client, Name: "c"},
	} {
		if r.Hosts != nil && r.Lifetime == 0 {
			r.Lifetime = time.Hour
		}
		if _, err := a.Issue(r, now); err == nil {
			t.Errorf("%s: a certificate was issued", name)
		}
	}
}

func TestCertificateEndsWithTheCA(t *testing.T) {
	a, err := certs.CreateAuthority(t.TempDir(), time.Hour, now)
	check(t, err)
	c, err := a.Issue(certs.Request{Kind: certs.Client, Name: "c", Lifetime: 24 * time.Hour}, now)
	if err != nil || !c.NotAfter.Equal(a.Certificates()[0].NotAfter) {
		t.Errorf("it ends at %v, the CA at %v (%v)", c.NotAfter, a.Certificates()[0].NotAfter, err)
	}
}

func TestNodesRecognizeEachOther(t *testing.T) {
	a, dir := newAuthority(t)
	issue(t, a, node("n1"))
	issue(t, a, node("n2"))
	issue(t, a, certs.Request{Kind: certs.Client, Name: "ci"})
	issue(t, a, certs.Request{Kind: certs.Node, Name: "far", Hosts: []string{"10.0.0.9", "far.example"}})
	b, foreign := newAuthority(t)
	issue(t, b, node("n1"))
	issue(t, b, node("n2"))

	n1, n2 := load(t, files(dir, "n1")), load(t, files(dir, "n2"))
	for name, c := range map[string]struct {
		server, client *certs.Identity
		refused        bool
	}{
		"two nodes":            {n1, n2, false},
		"a client's to a node": {n1, load(t, files(dir, "ci")), true},
		"another cluster's":    {n1, load(t, files(foreign, "n2")), true},
		"to another cluster":   {load(t, files(foreign, "n1")), n2, true},
		"another host's":       {load(t, files(dir, "far")), n2, true},
	} {
		server, client := dial(t, c.server, c.client, certs.VerifyNode)
		if refused := server != nil || client != nil; refused != c.refused {
			t.Errorf("%s: the server says %v, the client %v", name, server, client)
		}
	}
	server, client := dial(t, load(t, files(dir, "ci")), n2, certs.VerifyNode)
	if server == nil || client == nil {
		t.Error("a client's certificate passes for a node's")
	}
}

func TestLoadRefuses(t *testing.T) {
	a, dir := newAuthority(t)
	issue(t, a, node("n1"))
	issue(t, a, node("n2"))
	b, foreign := newAuthority(t)
	issue(t, b, node("n1"))
	old, err := certs.CreateAuthority(filepath.Join(dir, "old"), certs.CALifetime, now.Add(-48*time.Hour))
	check(t, err)
	if _, err := old.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"h"}, Lifetime: time.Hour}, now.Add(-24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	broken := filepath.Join(dir, "broken.crt")
	check(t, os.WriteFile(broken, []byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), 0o600))
	ok := files(dir, "n1")
	for name, f := range map[string]certs.Files{
		"no CA":               {CA: filepath.Join(dir, "none.crt"), Cert: ok.Cert, Key: ok.Key},
		"another CA":          {CA: filepath.Join(foreign, certs.CAFile), Cert: ok.Cert, Key: ok.Key},
		"another key":         {CA: ok.CA, Cert: ok.Cert, Key: files(dir, "n2").Key},
		"an expired one":      files(filepath.Join(dir, "old"), "n1"),
		"the CA's own":        {CA: ok.CA, Cert: ok.CA, Key: filepath.Join(dir, "ca.key")},
		"a broken one":        {CA: ok.CA, Cert: broken, Key: ok.Key},
		"a key for the certs": {CA: ok.CA, Cert: ok.Key, Key: ok.Key},
	} {
		if _, err := certs.Load(f, nil); err == nil {
			t.Errorf("%s: it was loaded", name)
		}
	}
}

// TestRotation replaces the CA step by step, and connects nodes that are at neighbouring
// steps.
func TestRotation(t *testing.T) {
	a, dir := newAuthority(t)
	issue(t, a, node("n1"))
	issue(t, a, node("n2"))
	connects := func(step string, one, other *certs.Identity, want bool) {
		t.Helper()
		for _, pair := range [][2]*certs.Identity{{one, other}, {other, one}} {
			server, client := dial(t, pair[0], pair[1], certs.VerifyNode)
			if got := server == nil && client == nil; got != want {
				t.Errorf("%s: connected %v: %v, %v", step, got, server, client)
			}
		}
	}
	first := load(t, files(dir, "n1"))
	check(t, a.Rotate(certs.CALifetime, now))
	if err := a.Rotate(certs.CALifetime, now); err == nil {
		t.Error("a CA that is being replaced was replaced again")
	}
	trusting := load(t, files(dir, "n2")) // with the certificate of the previous key
	connects("both certificates of the CA are known", first, trusting, true)
	a, err := certs.LoadAuthority(dir)
	check(t, err)
	names, err := a.Issued()
	if err != nil || !slices.Equal(names, []string{"n1", "n2"}) {
		t.Fatalf("issued %v, %v", names, err)
	}
	c, err := a.Renew("n1", 0, now)
	check(t, err)
	if d := c.NotAfter.Sub(now); d < 50*time.Minute || d > time.Hour {
		t.Errorf("the renewed certificate lives %v", d)
	}
	renewed := load(t, files(dir, "n1"))
	connects("one node is renewed", trusting, renewed, true)
	connects("one node does not know the new CA", first, renewed, false)
	if _, err := a.Renew("n2", 0, now); err != nil {
		t.Fatal(err)
	}
	check(t, a.Retire())
	retired := load(t, files(dir, "n2"))
	connects("the previous CA is retired", renewed, retired, true)
	connects("one node was not renewed", first, retired, false)
	if err := a.Retire(); err == nil {
		t.Error("the only certificate of a CA was retired")
	}
}

// A rotation that was cut between the certificates and the key is as if it had not begun.
func TestRotationThatIsCut(t *testing.T) {
	t.Parallel()
	a, dir := newAuthority(t)
	key := filepath.Join(dir, "ca.key")
	before, err := os.ReadFile(key)
	check(t, err)
	first := a.Certificates()[0]
	check(t, a.Rotate(certs.CALifetime, now))
	check(t, os.WriteFile(key, before, 0o600))
	again, err := certs.LoadAuthority(dir)
	check(t, err)
	if list := again.Certificates(); len(list) != 1 || !list[0].Equal(first) {
		t.Errorf("the CA has %d certificates", len(list))
	}
	if err := again.Rotate(certs.CALifetime, now); err != nil {
		t.Error(err)
	}
	if list := again.Certificates(); len(list) != 2 || !list[1].Equal(first) {
		t.Errorf("after the next rotation the CA has %d certificates", len(list))
	}
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
