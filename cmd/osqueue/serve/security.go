package serve

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/hashicorp/go-hclog"

	"osqueue/api/core"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth"
)

// securityOptions are the flags about who may use the API.
type securityOptions struct {
	mode      string
	programs  []string
	auditLog  string
	auditFull string
	auditKept view.Size // in memory

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
	return int64(o.auditKept)
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
	server := &http.Server{Handler: peersOnly(h), ReadHeaderTimeout: socketTimeout, ConnContext: withPeer}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}
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
