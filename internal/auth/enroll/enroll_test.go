package enroll

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/web"
)

// fakeNode is a node whose log is applied at once. Its time is set by the test.
type fakeNode struct {
	mu    sync.Mutex
	m     *fsm.Machine
	index uint64
	now   int64
	away  string // address of the leader; "": this node leads
}

func newFakeNode(t *testing.T) *fakeNode {
	n := &fakeNode{m: fsm.New(), now: time.Now().UnixMilli()}
	return n
}

func (n *fakeNode) View() *fsm.View { n.mu.Lock(); defer n.mu.Unlock(); return n.m.View() }
func (n *fakeNode) Token(id string) *fsm.Token {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.m.Token(id)
}
func (n *fakeNode) Now() int64 { n.mu.Lock(); defer n.mu.Unlock(); return n.now }
func (n *fakeNode) Leader() (string, bool) {
	return n.away, n.away == ""
}

func (n *fakeNode) ProposeAll(_ context.Context, ms []*fsmpb.Mutation) ([]fsm.Result, fsm.LSN, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	data, err := fsm.EncodeEntry(&fsmpb.Batch{NowMs: n.now, Mutations: ms})
	if err != nil {
		return nil, fsm.LSN{}, err
	}
	b, err := fsm.DecodeEntry(data)
	if err != nil {
		return nil, fsm.LSN{}, err
	}
	n.index++
	return n.m.Apply(n.index, 1, b), fsm.LSN{}, nil
}

func (n *fakeNode) pass(d time.Duration) {
	n.mu.Lock()
	n.now += d.Milliseconds()
	n.mu.Unlock()
	_, _, _ = n.ProposeAll(context.Background(), nil)
}

// site is a cluster of one node with a CA, which serves over TLS.
type site struct {
	t     *testing.T
	node  *fakeNode
	ca    *certs.Authority
	dir   string
	s     *Server
	files certs.Files
	id    *certs.Identity
	web   *httptest.Server

	mu   sync.Mutex
	acts []string
}

func (x *site) audit(a Act) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.acts = append(x.acts, fmt.Sprintf("%s %s %s %d", a.Principal, a.Action, a.Node, a.Status))
}

// recorded returns the acts since the last call.
func (x *site) recorded() string {
	x.mu.Lock()
	defer x.mu.Unlock()
	text := strings.Join(x.acts, "\n")
	x.acts = nil
	return text
}

func newSite(t *testing.T) *site {
	t.Helper()
	dir := t.TempDir()
	ca, err := certs.CreateAuthority(dir, certs.CALifetime, time.Now())
	check(t, err)
	if _, err := ca.Issue(certs.Request{Kind: certs.Node, Name: "n1", Hosts: []string{"127.0.0.1"}, Lifetime: time.Hour}, time.Now()); err != nil {
		t.Fatal(err)
	}
	files := certs.Files{CA: filepath.Join(dir, "ca.crt"), Cert: filepath.Join(dir, "n1.crt"), Key: filepath.Join(dir, "n1.key")}
	id, err := certs.Load(files, func(error) {})
	check(t, err)
	x := &site{t: t, node: newFakeNode(t), ca: ca, dir: dir, files: files, id: id}
	x.web = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { auth.Mux(x.s.Routes(), auth.Public, nil).ServeHTTP(w, r) }))
	x.web.TLS = id.Server(tls.NoClientCert, nil)
	x.web.StartTLS()
	t.Cleanup(x.web.Close)
	x.s = New(Config{Node: x.node, Files: files, Identity: id, Log: hclog.NewNullLogger(), Audit: x.audit, Site: Site{
		Addresses: []string{x.address()}, Peers: "n1=" + x.address(), Raft: "127.0.0.1:7099", Bucket: "mem://jobs",
	}})
	return x
}

func (x *site) address() string { return strings.TrimPrefix(x.web.URL, "https://") }

func (x *site) token(name string) Token {
	x.t.Helper()
	made, err := x.s.create(x.t.Context(), nil, NewToken{Node: name, Hosts: []string{"10.0.0.4", name + ".test"}, HTTP: "10.0.0.4:8080"})
	if err != nil {
		x.t.Fatal(err)
	}
	token, err := ParseToken(made.Token)
	if err != nil {
		x.t.Fatal(err)
	}
	return token
}

// sign answers all pending requests, and returns how many there were.
func (x *site) sign() int {
	x.t.Helper()
	pending := Pending(x.node.View())
	for _, r := range pending {
		c, err := Sign(x.ca, &r)
		if err != nil {
			x.t.Fatal(err)
		}
		if err := x.s.store(x.t.Context(), Signed{ID: r.ID, Certificate: c.Raw}); err != nil {
			x.t.Fatal(err)
		}
	}
	return len(pending)
}

// join runs a Joiner, and signs its request when it waits.
func (x *site) join(token Token, dir string) (Joined, error) {
	ctx, cancel := context.WithTimeout(x.t.Context(), 20*time.Second)
	defer cancel()
	j := Joiner{Token: token, Dir: dir, Waiting: func() { x.sign() }}
	return j.Join(ctx)
}

func TestJoin(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	token, dir := x.token("n4"), t.TempDir()
	done, err := x.join(token, dir)
	check(t, err)
	id, err := certs.Load(done.Files, func(error) {})
	check(t, err)
	if s := id.Subject(); s.Kind != certs.Node || s.Name != "n4" || s.Cluster != x.ca.Cluster() {
		t.Errorf("the certificate is of %+v", s)
	}
	if hosts := certs.HostsOf(id.Certificate()); !slices.Equal(hosts, []string{"n4.test", "10.0.0.4"}) {
		t.Errorf("the certificate has the hosts %v", hosts)
	}
	if info, err := os.Stat(done.Files.Key); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the key has the mode %v (%v)", info.Mode(), err)
	}
	if got := PeerOf(x.node.Token(PeerRecord("n4"))).HTTP; got != "10.0.0.4:8080" {
		t.Errorf("the address of the new node is %q", got)
	}
	if want := "n1=" + x.address() + ",n4=10.0.0.4:8080"; done.Peers != want {
		t.Errorf("peers are %q, want %q", done.Peers, want)
	}
	if done.Raft != "10.0.0.4:7099" || done.Bucket != "mem://jobs" {
		t.Errorf("the raft address is %q and the bucket %q", done.Raft, done.Bucket)
	}
	for r := range x.node.View().Tokens("") {
		if strings.Contains(r.Id+r.Name+strings.Join(r.Types, " ")+string(r.Hash), token.Secret.Text) {
			t.Errorf("record %s has the secret", r.Id)
		}
	}

	// A machine that was cut before it had the answer gets the same certificate; another one
	// gets none, and neither does one that comes when the token has ended.
	again := t.TempDir()
	copyFile(t, done.Files.Key, filepath.Join(again, "n4.key.next"))
	second, err := x.join(token, again)
	check(t, err)
	if !slices.Equal(read(t, second.Files.Cert), read(t, done.Files.Cert)) {
		t.Error("the same key got another certificate")
	}
	recorded := "join token " + token.Secret.ID + " POST " + JoinPath + " n4 200\n issue certificate n4 200"
	if got := x.recorded(); got != recorded {
		t.Errorf("the audit log has\n%s\nwant\n%s", got, recorded)
	}
	wantRefusal(t, "used by another machine", func() error { _, err := x.join(token, t.TempDir()); return err })
	if got, want := x.recorded(), "join token "+token.Secret.ID+" POST "+JoinPath+" n4 403"; got != want {
		t.Errorf("the audit log has\n%s\nwant\n%s", got, want)
	}
	x.node.pass(DefaultTTL)
	wantRefusal(t, "has expired", func() error { _, err := x.join(token, again+"x"); return err })
	if PeerOf(x.node.Token(PeerRecord("n4"))).HTTP == "" {
		t.Error("the address of the new node ended with its token")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	check(t, os.WriteFile(to, read(t, from), 0o600))
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	check(t, err)
	return data
}

func wantRefusal(t *testing.T, text string, do func() error) {
	t.Helper()
	if err := do(); err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("got %v, want an error with %q", err, text)
	}
}

// A token for a further node has the port of the running ones by default, and its --peers have
// the nodes that have joined before.
func TestJoinAfterOthers(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	if _, err := x.join(x.token("n4"), t.TempDir()); err != nil {
		t.Fatal(err)
	}
	made, err := x.s.create(t.Context(), nil, NewToken{Node: "n5", Hosts: []string{"10.0.0.5"}})
	check(t, err)
	token, err := ParseToken(made.Token)
	check(t, err)
	done, err := x.join(token, t.TempDir())
	check(t, err)
	own := "10.0.0.5:" + x.address()[strings.LastIndex(x.address(), ":")+1:]
	if want := "n1=" + x.address() + ",n4=10.0.0.4:8080,n5=" + own; done.Peers != want || done.HTTP != own || made.HTTP != own {
		t.Errorf("peers are %q, want %q; the address is %q and %q", done.Peers, want, made.HTTP, done.HTTP)
	}
}

// A server with another CA gets neither the secret nor the request.
func TestJoinWithAnotherCA(t *testing.T) {
	t.Parallel()
	x, other := newSite(t), newSite(t)
	token := x.token("n4")
	token.Addresses = []string{other.address()}
	var asked []string
	inner := other.web.Config.Handler
	other.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		inner.ServeHTTP(w, r)
	})
	wantRefusal(t, "does not match the join token", func() error { _, err := other.join(token, t.TempDir()); return err })
	if !slices.Equal(asked, []string{CAPath}) {
		t.Errorf("the server was asked for %v", asked)
	}

	// It shows the right CA, which is public, but has no certificate of it.
	asked = nil
	right := read(t, x.files.CA)
	other.web.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Path)
		web.WriteJSON(w, http.StatusOK, Answer{CA: string(right)})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	j := Joiner{Token: token, Dir: t.TempDir()}
	if _, err := j.Join(ctx); err == nil || slices.Contains(asked, JoinPath) {
		t.Errorf("the server was asked for %v (%v)", asked, err)
	}
}

// The leader takes a certificate only if it is exactly the one of the request.
func TestForeignCertificatesAreRefused(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	token := x.token("n4")
	_, csr, err := certs.OpenKey(filepath.Join(t.TempDir(), "k"))
	check(t, err)
	req := httptest.NewRequest(http.MethodPost, JoinPath, nil)
	if a, _, err := x.s.join(t.Context(), req, CSR{Secret: token.Secret.Text, Request: csr}, new(Act)); err != nil || !a.Pending {
		t.Fatalf("%+v %v", a, err)
	}
	pending := Pending(x.node.View())
	if len(pending) != 1 {
		t.Fatalf("%d requests are pending", len(pending))
	}
	foreign, err := certs.CreateAuthority(t.TempDir(), certs.CALifetime, time.Now())
	check(t, err)
	_, der, err := certs.OpenKey(filepath.Join(t.TempDir(), "k"))
	check(t, err)
	public, err := certs.ReadRequest(der)
	check(t, err)
	for name, change := range map[string]func(r *Request) *certs.Authority{
		"another name":     func(r *Request) *certs.Authority { r.Node = "n1"; return x.ca },
		"a further host":   func(r *Request) *certs.Authority { r.Hosts = append(r.Hosts, "10.0.0.1"); return x.ca },
		"another key":      func(r *Request) *certs.Authority { r.Key = public; return x.ca },
		"another CA":       func(*Request) *certs.Authority { return foreign },
		"a later time":     func(r *Request) *certs.Authority { r.Made = r.Made.Add(time.Second); return x.ca },
		"an ended one":     func(r *Request) *certs.Authority { r.Lifetime = -1000; return x.ca },
		"an unknown id":    func(r *Request) *certs.Authority { r.ID = "none"; return x.ca },
		"an id of another": func(r *Request) *certs.Authority { r.ID = "n.n1"; return x.ca },
	} {
		r := pending[0]
		r.Hosts = slices.Clone(r.Hosts)
		a := change(&r)
		c, err := Sign(a, &r)
		check(t, err)
		if err := x.s.store(t.Context(), Signed{ID: r.ID, Certificate: c.Raw}); err == nil {
			t.Errorf("a certificate for %s was taken", name)
		}
	}
	if n := x.sign(); n != 1 {
		t.Errorf("%d requests are pending", n)
	}
}

// A request for a certificate that names another node gets the name of its token.
func TestNamesOfARequestAreIgnored(t *testing.T) {
	t.Parallel()
	der := foreignRequest(t)
	public, err := certs.ReadRequest(der)
	check(t, err)
	x := newSite(t)
	token := x.token("n4")
	req := httptest.NewRequest(http.MethodPost, JoinPath, nil)
	if _, _, err := x.s.join(t.Context(), req, CSR{Secret: token.Secret.Text, Request: der}, new(Act)); err != nil {
		t.Fatal(err)
	}
	x.sign()
	a, _, err := x.s.join(t.Context(), req, CSR{Secret: token.Secret.Text, Request: der}, new(Act))
	check(t, err)
	c, err := x509.ParseCertificate(a.Certificate)
	check(t, err)
	want := certs.Expected{Name: "n4", Hosts: []string{"10.0.0.4", "n4.test"}, Public: public}
	if err := want.Check(c, x.ca.Certificates(), time.Now()); err != nil {
		t.Error(err)
	}
}

// A token from before the revocation of its node, and a renewal from before it, give nothing.
func TestRevocationEndsRequests(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	token := x.token("n1")
	own, err := certs.ReadList(x.files.Cert)
	check(t, err)
	_, csr, err := x.files.NextKey()
	check(t, err)
	if a, _, err := x.s.renew(t.Context(), "n1", own[0], csr); err != nil || !a.Pending {
		t.Fatalf("%+v %v", a, err)
	}
	pending := Pending(x.node.View())
	x.node.pass(time.Second)
	if _, err := x.s.propose(t.Context(), auth.Mark(fsm.RevokedMark("n1"), "test")); err != nil {
		t.Fatal(err)
	}
	for _, r := range pending {
		c, err := Sign(x.ca, &r)
		check(t, err)
		if err := x.s.store(t.Context(), Signed{ID: r.ID, Certificate: c.Raw}); err == nil {
			t.Error("a certificate was issued for a request from before the revocation")
		}
		if certs.IssuedAt(c).UnixMilli() > x.s.revokedAt("n1") {
			t.Error("the certificate counts as issued after the revocation")
		}
	}
	wantRefusal(t, "revoked", func() error { _, err := x.join(token, t.TempDir()); return err })
	x.node.pass(time.Second)
	if _, err := x.join(x.token("n1"), t.TempDir()); err != nil {
		t.Errorf("a token from after the revocation: %v", err)
	}
}

// A node that does not lead names the leader, and the joiner asks there.
func TestJoinFindsTheLeader(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	token := x.token("n4")
	follower := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		web.WriteJSON(w, http.StatusMisdirectedRequest, web.Refusal{Message: "no", Leader: x.address()})
	}))
	defer follower.Close()
	token.Addresses = []string{strings.TrimPrefix(follower.URL, "https://")}
	if _, err := x.join(token, t.TempDir()); err != nil {
		t.Error(err)
	}
	x.node.away = "elsewhere:1"
	rec := httptest.NewRecorder()
	auth.Mux(x.s.Routes(), auth.Public, nil).ServeHTTP(rec, httptest.NewRequest(http.MethodPost, JoinPath, strings.NewReader("{}")))
	if rec.Code != http.StatusMisdirectedRequest || !strings.Contains(rec.Body.String(), "elsewhere:1") {
		t.Errorf("a follower answers %d %s", rec.Code, rec.Body)
	}
}

// A certificate in the last third of its life is replaced; a cut between certificate and key is
// completed at the next start.
func TestRenewal(t *testing.T) {
	t.Parallel()
	x := newSite(t)
	if _, err := x.ca.Renew("n1", time.Hour, time.Now().Add(-50*time.Minute)); err != nil {
		t.Fatal(err)
	}
	id, err := certs.Load(x.files, func(error) {})
	check(t, err)
	x.s.cfg.Identity = id
	k := &Keeper{Server: x.s, Name: "n1"}
	old := id.Certificate()
	k.look(t.Context())
	if f := k.Figures(); !f.Waiting || f.Renewed != 0 {
		t.Errorf("without a signer: %+v", f)
	}
	k.Signer = func() (*certs.Authority, error) { return certs.LoadSigner(x.files.CA, filepath.Join(x.dir, "ca.key")) }
	k.sign(t.Context())
	keyBefore := read(t, x.files.Key)
	k.look(t.Context())
	if f := k.Figures(); f.Waiting || f.Renewed != 1 || f.Failed != 0 {
		t.Errorf("with a signer: %+v", f)
	}
	fresh := id.Certificate()
	if fresh.Equal(old) || certs.RenewalDue(fresh, time.Now()) || !slices.Equal(certs.HostsOf(fresh), certs.HostsOf(old)) {
		t.Errorf("the new certificate is from %v to %v", fresh.NotBefore, fresh.NotAfter)
	}
	if slices.Equal(read(t, x.files.Key), keyBefore) {
		t.Error("the key is the same")
	}
	// The state in which a cut leaves the files.
	copyFile(t, x.files.Key, x.files.Key+".next")
	check(t, os.WriteFile(x.files.Key, keyBefore, 0o600))
	if _, err := certs.Load(x.files, func(error) {}); err != nil {
		t.Errorf("after a cut: %v", err)
	}
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
