package serve

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/internal/auth"
	"osqueue/internal/auth/certs"
	"osqueue/internal/auth/oidc"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// securityOptions are the flags about who may use the API.
type securityOptions struct {
	mode      string
	programs  []string
	auditLog  string
	auditFull string
	auditKept int64 // in memory

	bootstrapFile string
	bootstrap     *auth.Bootstrap // nil: none
	rolesFile     string
	issuer        string
	audience      string
	algorithms    []string
	leeway        time.Duration
	roles         *auth.Roles // of rolesFile; nil: none
}

// check completes the mode; certificates says whether the node has one.
func (o *securityOptions) check(certificates bool) error {
	switch {
	case o.mode == "" && certificates:
		o.mode = core.SecurityOn
	case o.mode == "":
		o.mode = core.SecurityOff
	}
	if err := o.checkIdentities(); err != nil || o.bootstrapFile == "" {
		return err
	}
	b, err := auth.ReadBootstrap(o.bootstrapFile)
	if err != nil {
		return fmt.Errorf("--bootstrap-token: %w", err)
	}
	o.bootstrap = &b
	return nil
}

// defaultAuditKept is some 5000 entries.
const defaultAuditKept = 1 << 20

// auditBytes returns how much of the audit log is kept in memory.
func (o *securityOptions) auditBytes() int64 {
	if o.mode == core.SecurityOff && o.auditLog == "" {
		return 0
	}
	return o.auditKept
}

// socketName is the name of the admin socket in the data directory.
const socketName = view.SocketName

// socketTimeout bounds the head of a request to the admin socket.
const socketTimeout = 5 * time.Second

// serveAdmin serves the API on the admin socket in the data directory, for its owner only. A
// node without the socket works: an error is logged. The caller calls stop.
func serveAdmin(log hclog.Logger, n web.Network, dir string, h http.Handler) (stop func()) {
	path := filepath.Join(dir, socketName)
	_ = os.Remove(path) // of an earlier run; the data directory is locked
	ln, err := n.Listen("unix", path)
	if err == nil {
		if err = os.Chmod(path, 0o600); err != nil {
			_ = ln.Close()
		}
	}
	if err != nil {
		log.Warn("no admin socket: only a token can manage access tokens", "error", err)
		return func() {}
	}
	return web.Start(&http.Server{Handler: peersOnly(h), ReadHeaderTimeout: socketTimeout, ConnContext: withPeer}, ln)
}

type peerKey struct{}

// withPeer notes whether the process at the other end of a connection may use the admin socket.
func withPeer(ctx context.Context, conn net.Conn) context.Context {
	return context.WithValue(ctx, peerKey{}, checkPeer(conn))
}

// peersOnly refuses the requests of other users.
func peersOnly(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err, refused := r.Context().Value(peerKey{}).(error); refused {
			http.Error(w, err.Error(), http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// bootstrapLook is the interval at which a node checks whether it leads a cluster that has no
// token yet.
const bootstrapLook = 250 * time.Millisecond

// addFirstToken adds the first token when this node leads a cluster that has none, until ctx ends.
// Every node may try: the token is the same, and a second attempt changes nothing.
func (s *server) addFirstToken(ctx context.Context) {
	for again := s.first != nil; again; {
		again = !s.bootstrap(ctx) && sleep.For(ctx, bootstrapLook)
	}
}

// bootstrap returns true once the cluster has a token. It proposes the first one on the active
// leader only, whose state is complete.
func (s *server) bootstrap(ctx context.Context) bool {
	if v := s.node.View(); v.TokenCount() > 0 || v.Token(fsm.BootstrapMark) != nil {
		return true
	}
	if _, self := s.node.Leader(); !self {
		return false
	}
	results, _, err := s.node.ProposeAll(ctx, s.first.Mutations())
	if err != nil {
		if !errors.Is(err, cluster.ErrNotLeader) && !errors.Is(err, cluster.ErrLevel) && ctx.Err() == nil {
			s.log.Warn("the first token is not added yet", "token", s.first.ID, "error", err)
		}
		return false
	}
	if code := results[0].Code; code != fsm.OK && code != fsm.Duplicate {
		s.log.Error("the first token was refused", "token", s.first.ID, "code", code)
		return true
	}
	s.log.Info("the first admin token of this cluster is valid", "token", s.first.ID)
	return true
}

// checkIdentities checks the flags about identities that others vouch for, and reads the rules.
func (o *securityOptions) checkIdentities() error {
	switch {
	case o.issuer == "" && o.audience != "":
		return errors.New("--oidc-audience: give --oidc-issuer too")
	case o.issuer != "" && o.rolesFile == "":
		return errors.New("--oidc-issuer: give --roles-file too: without rules no JWT has rights")
	case (o.issuer != "" || o.rolesFile != "") && o.mode == core.SecurityOff:
		return errors.New("--roles-file and --oidc-issuer: give --security log or on too")
	case o.rolesFile == "":
		return nil
	}
	data, err := os.ReadFile(o.rolesFile)
	if err != nil {
		return fmt.Errorf("--roles-file: %w", err)
	}
	if o.roles, err = auth.ParseRoles(data); err != nil {
		return fmt.Errorf("--roles-file %s: %w", o.rolesFile, err)
	}
	return nil
}

// identities are the rules of roles and the verifier of JWTs, which a reload replaces together.
type identities struct {
	roles *auth.Roles    // nil: none
	jwt   *oidc.Verifier // nil: JWTs do not count
}

// openIdentities returns the identities of the options, which replace others; nil: none.
func (o *securityOptions) openIdentities(log hclog.Logger, before *identities) (in *identities, err error) {
	in = &identities{roles: o.roles}
	if o.issuer == "" {
		return in, nil
	}
	cfg := o.oidcConfig()
	cfg.Logger = log.Named("oidc")
	if before == nil {
		in.jwt, err = oidc.New(cfg)
	} else {
		in.jwt, err = before.jwt.With(cfg)
	}
	if err != nil {
		return nil, fmt.Errorf("--oidc-issuer %s: %w", o.issuer, err)
	}
	return in, nil
}

func (o *securityOptions) oidcConfig() oidc.Config {
	return oidc.Config{Issuer: o.issuer, Audience: o.audience, Algorithms: o.algorithms, Roles: o.roles, Leeway: o.leeway}
}

// checkOIDC returns why openIdentities would fail, or nil.
func (o *securityOptions) checkOIDC() error {
	if o.issuer == "" {
		return nil
	}
	cfg := o.oidcConfig()
	if err := cfg.Check(); err != nil {
		return fmt.Errorf("--oidc-issuer %s: %w", o.issuer, err)
	}
	return nil
}

// close ends the verifier.
func (in *identities) close() {
	if in.jwt != nil {
		in.jwt.Close()
	}
}

// shownCertificate is the client certificate of a request as one node sends it to another.
type shownCertificate struct {
	Name  string    `json:"name,omitzero"` // of the client, in a certificate of this program
	CN    string    `json:"cn,omitzero"`
	URIs  []string  `json:"uris,omitzero"`
	Until time.Time `json:"until"`
}

// values returns the values of a field of a rule.
func (c *shownCertificate) values(field string) []string {
	switch {
	case field == "name" && c.Name != "":
		return []string{c.Name}
	case field == "cn" && c.CN != "":
		return []string{c.CN}
	case field == "uri":
		return c.URIs
	}
	return nil
}

// id returns the name of the identity for logs.
func (c *shownCertificate) id() string {
	switch {
	case c.Name != "":
		return c.Name
	case len(c.URIs) > 0:
		return c.URIs[0]
	}
	return c.CN
}

func showCertificate(c *x509.Certificate) *shownCertificate {
	shown := &shownCertificate{CN: c.Subject.CommonName, Until: c.NotAfter}
	for _, u := range c.URIs {
		shown.URIs = append(shown.URIs, u.String())
	}
	if s, err := certs.SubjectOf(c); err == nil {
		shown.Name = s.Name
	}
	return shown
}

// certificateOf returns the principal of the client certificate of a connection. A node tells the
// certificate of its client in a header, which counts on connections of nodes only. Without a rule for
// certificates none counts.
func (in *identities) certificateOf(conn *tls.ConnectionState, header string) (p *auth.Principal, forLeader string, err error) {
	if conn == nil || len(conn.VerifiedChains) == 0 || !in.roles.Uses(auth.KindCertificate) {
		return nil, "", nil
	}
	var shown *shownCertificate
	if s, ok := certs.PeerOf(conn); ok && s.Kind == certs.Node {
		if shown = readCertificate(header); shown == nil {
			return nil, "", nil
		}
	} else {
		shown = showCertificate(conn.VerifiedChains[0][0])
	}
	if !time.Now().Before(shown.Until) {
		return nil, "", fmt.Errorf("%w: the client certificate has expired", auth.ErrToken)
	}
	if p = in.roles.Principal(auth.KindCertificate, "", shown.id(), shown.values); p == nil {
		return nil, "", fmt.Errorf("%w: no rule of --roles-file gives a role to the client certificate of %q", auth.ErrDenied, shown.id())
	}
	p.ExpiresAt = shown.Until.UnixMilli()
	text, err := json.Marshal(shown)
	return p, base64.RawURLEncoding.EncodeToString(text), err
}

// certificateMax bounds the header, in bytes.
const certificateMax = 8 << 10

// readCertificate reads the header of another node, or returns nil.
func readCertificate(header string) *shownCertificate {
	if header == "" || len(header) > certificateMax {
		return nil
	}
	text, err := base64.RawURLEncoding.DecodeString(header)
	if err != nil {
		return nil
	}
	shown := new(shownCertificate)
	if json.Unmarshal(text, shown) != nil || shown.id() == "" {
		return nil
	}
	return shown
}
