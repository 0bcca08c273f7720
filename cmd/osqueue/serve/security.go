package serve

import (
	"context"
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
func serveAdmin(log hclog.Logger, dir string, h http.Handler) (stop func()) {
	path := filepath.Join(dir, socketName)
	_ = os.Remove(path) // of an earlier run; the data directory is locked
	ln, err := net.Listen("unix", path)
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
