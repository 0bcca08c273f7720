package serve

import (
	"context"
	"errors"
	"net"

	"github.com/hashicorp/go-hclog"

	"osqueue/api"
	"osqueue/api/tracing"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/compat/osqueue"
	"osqueue/internal/auth"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/auth/oidc"
	"osqueue/internal/inflight"
	"osqueue/storage"
	"osqueue/storage/throttle"
)

// server is a running node with all its parts, in the order of their start.
type server struct {
	log        hclog.Logger
	bucket     storage.Bucket
	prove      func(context.Context) error // nil: the bucket has been probed
	node       *cluster.Node
	past       *past.States
	api        *api.Server
	listen     net.Listener
	legacy     net.Listener    // for legacy clients; nil: none
	pprof      net.Listener    // nil: no profiles are served
	scheme     string          // of the URLs of the nodes
	advertised string          // the address of this node's API
	audit      *auditLog       // nil: none
	oidc       *oidc.Verifier  // nil: JWTs do not count
	tracer     *tracing.Tracer // nil: none

	enroll *enroll.Server // nil: the node has no certificate
	keeper *enroll.Keeper // nil: the same

	dataDir string
	first   *auth.Bootstrap // token for a cluster that has none; nil: none

	throttle *throttle.Bucket // bucket
	inflight *inflight.Budget
	original *osqueue.Handler // around api
}

// close undoes an assembly that failed before its node started.
func (s *server) close() error {
	errs := []error{s.listen.Close()}
	if s.legacy != nil {
		errs = append(errs, s.legacy.Close())
	}
	if s.pprof != nil {
		errs = append(errs, s.pprof.Close())
	}
	if s.bucket != nil {
		errs = append(errs, s.bucket.Close())
	}
	ctx, cancel := context.WithTimeout(context.Background(), fatalLimit/2)
	defer cancel()
	errs = append(errs, s.tracer.Close(ctx))
	return errors.Join(errs...)
}
