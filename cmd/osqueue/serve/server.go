package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/api"
	"osqueue/api/core"
	"osqueue/api/tracing"
	"osqueue/api/ui"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/flush"
	"osqueue/cluster/past"
	"osqueue/compat/osqueue"
	"osqueue/internal/auth"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/auth/oidc"
	"osqueue/internal/limit"
	"osqueue/internal/otlp"
	"osqueue/internal/web"
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
	inflight *limit.Budget
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

// completeHosts collects the host names under which this node is known.
func (o *serveOptions) completeHosts() (err error) {
	if o.hosts, err = web.ParseHosts(o.allowedHosts); err != nil {
		return fmt.Errorf("--allowed-hosts: %w", err)
	}
	o.hosts.Add(o.httpAddr)
	o.hosts.Add(o.node.HTTPAdvertise)
	for _, address := range o.legacy.hosts() {
		o.hosts.Add(address)
	}
	for _, p := range o.node.Peers {
		o.hosts.Add(p.HTTP)
	}
	return nil
}

// guarded keeps the pages of strangers away from a handler.
func (o *serveOptions) guarded(next http.Handler) http.Handler {
	return web.Guard(web.GuardConfig{
		Hosts:     o.hosts,
		Origins:   o.compat.allowed.Named(),
		AnyOrigin: o.compat.allowed.Any(),
		Open:      []string{v1.PathHealthz, v1.PathReadyz},
	}, next)
}

// The values of --ui.
const (
	uiOn       = "on"
	uiReadOnly = "read-only"
	uiOff      = "off"
)

// internal returns the handlers that are not part of the API, by the prefix of their paths.
func (s *server) internal(o *serveOptions) map[string]http.Handler {
	handlers := map[string]http.Handler{cluster.PeerPath: s.clientClusterHandler()}
	if o.dashboard != uiOff {
		calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Identified().ServeHTTP(w, r) })
		handlers[ui.Root] = ui.New(ui.Config{API: calls, ReadOnly: o.dashboard == uiReadOnly})
	}
	return handlers
}

// openTracer makes the tracer of the node, if the environment asks for one. The flusher of the
// node uses it. Failures to export are logged, at most one a minute.
func (s *server) openTracer(o *serveOptions) error {
	exporter, err := otlp.Exporter()
	if exporter == nil || err != nil {
		return err
	}
	log := s.log.Named("traces")
	otlp.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	node := otlp.Service("osqueue", attribute.String("service.version", o.node.Version), attribute.String("service.instance.id", o.node.Name))
	s.tracer = tracing.New(otlp.Sampler(), sdktrace.WithBatcher(exporter), sdktrace.WithResource(node))
	log.Info("traces are exported")
	o.node.Flush.Flushed = func(began time.Time, w flush.Written) { s.tracer.Flushed(began, w.Content.LSN(), w.Bytes) }
	return nil
}

// apiTracer returns the tracer for the API, or nil.
func (s *server) apiTracer() core.Tracer {
	if s.tracer == nil {
		return nil
	}
	return s.tracer
}

// clusterRoutes returns the requests under cluster.PeerPath. api.ClusterOpenAPI describes them.
func (s *server) clusterRoutes() []auth.Route {
	routes := append(s.node.Routes(), auth.Route{
		Pattern: "GET " + cluster.PeerPath + "openapi.yaml", Right: auth.Public, Handler: api.ServeClusterOpenAPI,
	})
	if s.enroll != nil {
		routes = append(routes, s.enroll.Routes()...)
	}
	return routes
}

// peerHandler returns the handler of cluster.PeerPath at the port for nodes.
func (s *server) peerHandler() http.Handler { return auth.Mux(s.clusterRoutes(), auth.Node, nil) }

// clientClusterHandler returns the handler of cluster.PeerPath at the HTTP port: the requests of
// operators.
func (s *server) clientClusterHandler() http.Handler {
	calls := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "nodes call each other at the raft port", http.StatusNotFound)
	})
	mux := sync.OnceValue(func() http.Handler { // s.api is made later
		mux := auth.Mux(s.clusterRoutes(), ^auth.Node, s.api.Guard)
		for _, r := range s.node.Routes() {
			if r.Right == auth.Node {
				mux.Handle(r.Pattern, calls)
			}
		}
		return mux
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { mux().ServeHTTP(w, r) })
}

// Profiles show the contents of memory and can slow a node down, so they have a listener
// of their own, which other machines cannot reach.

// listenPprof returns nil if there is no address.
func listenPprof(addr string) (net.Listener, error) {
	if addr == "" {
		return nil, nil
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("listen for profiles: %w", err)
	}
	return l, nil
}

// servePprof serves profiles until the returned function is called.
func (s *server) servePprof() (stop func()) {
	if s.pprof == nil {
		return func() {}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	s.log.Info("serving profiles", "url", fmt.Sprintf("http://%s/debug/pprof/", s.pprof.Addr()))
	return web.Start(&http.Server{Handler: web.Guard(web.GuardConfig{}, mux), ReadHeaderTimeout: 5 * time.Second}, s.pprof)
}
