package serve

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
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
	"osqueue/cmd/osqueue/view"
	"osqueue/compat/osqueue"
	"osqueue/internal/auth"
	"osqueue/internal/auth/enroll"
	"osqueue/internal/host"
	"osqueue/internal/limit"
	"osqueue/internal/web"
	"osqueue/storage"
	"osqueue/storage/throttle"
)

// server is a running node with all its parts, in the order of their start.
type server struct {
	log        hclog.Logger
	drain      *core.Drain
	bucket     storage.Bucket
	prove      func(context.Context) error // nil: the bucket has been probed
	node       *cluster.Node
	past       *past.States
	api        *api.Server
	listen     net.Listener
	legacy     net.Listener // for legacy clients; nil: none
	scheme     string       // of the URLs of the nodes
	advertised string       // the address of this node's API
	audit      *auditLog    // nil: none
	who        atomic.Pointer[identities]
	tracer     *tracing.Tracer // nil: none

	enroll *enroll.Server // nil: the node has no certificate
	keeper *enroll.Keeper // nil: the same

	network web.Network
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
		if p.Name != "" {
			o.hosts.Add(p.HTTP)
		}
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
	handlers := map[string]http.Handler{cluster.PeerPath: s.clientClusterHandler(), "/debug/": s.debugHandler(o)}
	if o.dashboard != uiOff {
		calls := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { s.api.Identified().ServeHTTP(w, r) })
		handlers[ui.Root] = ui.New(ui.Config{API: calls, ReadOnly: o.dashboard == uiReadOnly})
	}
	return handlers
}

// openTracer makes the tracer of the node, if the environment asks for one. The flusher of the
// node uses it. Failures to export are logged, at most one a minute.
func (s *server) openTracer(o *serveOptions) error {
	exporter, err := tracing.Exporter()
	if exporter == nil || err != nil {
		return err
	}
	log := s.log.Named("traces")
	tracing.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	node := tracing.Service("osqueue", attribute.String("service.version", o.node.Version), attribute.String("service.instance.id", o.node.Name))
	s.tracer = tracing.New(tracing.Sampler(), sdktrace.WithBatcher(exporter), sdktrace.WithResource(node))
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

// Time limits of start and stop.
const (
	stepDownTimeout = 3 * time.Second
	httpStopTimeout = 5 * time.Second
	// stopLimit ends a graceful stop that a hung disk or bucket blocks. It is shorter
	// than TimeoutStopSec in docs/examples/osqueue.service.
	stopLimit = 15 * time.Second
	// fatalLimit bounds the graceful stop of a node after a fatal error.
	fatalLimit = 900 * time.Millisecond
)

// assemble starts everything except the HTTP server. It opens the listener first: a port
// in use is the most common mistake, and at that moment nothing has happened yet.
func assemble(ctx context.Context, o *serveOptions, budget *limit.Budget) (*server, error) {
	s := &server{log: o.node.Logger, drain: core.NewDrain(), inflight: budget, scheme: o.tls.scheme(), advertised: o.node.HTTPAdvertise}
	metrics := o.newRegistry()
	for _, w := range o.warnings() {
		s.log.Warn(w)
	}
	var err error
	if s.listen, err = o.node.Security.Network.Listen("tcp", o.httpAddr); err != nil {
		return nil, fmt.Errorf("listen for HTTP on %s: %w (another node or program uses it?)", o.httpAddr, err)
	}
	if s.legacy, err = o.legacy.listen(o.node.Security.Network); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openBucket(ctx, o, metrics); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := s.openTracer(o); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if err := o.node.Validate(); err != nil {
		return nil, errors.Join(&view.UsageError{Err: err}, s.close())
	}
	sender, box := o.hooks.newSender(s.log), o.pace.inbox.newBox(s.bucket, s.log)
	o.node.WhileLeading = together(deliver(sender), empty(box, o.bodyLimit, o.pace.inbox.mayEnqueue(&o.security)))
	if s.node, err = cluster.Open(o.node); err != nil {
		return nil, errors.Join(err, s.close())
	}
	metrics.MustRegister(nodeCollector(s.node), typeCollector(s.node), workerCollector(s.node.View), hookCollector(s.node.View, sender), inboxCollector(s.node, box))
	s.openEnrollment(o, metrics)
	if s.audit, err = o.security.openAudit(s.log); err != nil {
		return nil, errors.Join(err, s.node.Close(), s.close())
	}
	if s.audit != nil {
		s.audit.register(metrics)
	}
	who, err := o.security.openIdentities(s.log, nil)
	if err != nil {
		return nil, errors.Join(&view.UsageError{Err: err}, s.audit.close(context.Background()), s.node.Close(), s.close())
	}
	s.who.Store(who)
	s.dataDir, s.first, s.network = o.node.DataDir, o.security.bootstrap, o.node.Security.Network
	s.past = past.New(past.Config{Bucket: s.bucket, Key: cluster.DocumentKey, MaxBytes: unlessAuto(o.pastMemory, shareOf(host.Memory(), pastShare))})
	s.api = api.New(core.Config{
		Past:            s.past,
		Objects:         s.throttle,
		Security:        s.securityOfAPI(o),
		Legacy:          o.legacy.config(o.node.HTTPAdvertise),
		Hooks:           sender,
		Members:         s.node.Members(),
		Drain:           s.drain,
		Inbox:           func() v1.Inbox { return v1.Inbox(box.Stats()) },
		Backend:         s.node,
		Metrics:         metrics,
		MaxBody:         o.bodyLimit,
		Inflight:        s.inflight,
		MaxConnections:  o.maxConnections,
		ConnectionsEach: o.maxPerAddress,
		Limits:          core.Limits{Waits: o.maxWaiting},
		Ack:             o.pace.ack,
		Logger:          s.log.Named("http"),
		Internal:        s.internal(o),
		TLS:             o.tls.clientTLS(),
		PlainToo:        o.tls.plain,
		NodesTrusted:    o.tls.identity != nil && !o.tls.plain,
		DialNode:        o.tls.dialer.DialContext,
		Throttle:        s.throttleStats(o),
		Tracer:          s.apiTracer(),
		Wrap:            s.wrap(o, metrics),
	})
	return s, nil
}

// together returns a function that runs all duties of a leader at the same time, and returns
// when all have returned.
func together(duties ...func(context.Context, *cluster.Node)) func(context.Context, *cluster.Node) {
	return func(ctx context.Context, n *cluster.Node) {
		var wg sync.WaitGroup
		for _, duty := range duties {
			wg.Go(func() { duty(ctx, n) })
		}
		wg.Wait()
	}
}

// securityOfAPI returns how the API identifies callers, and where it records them.
func (s *server) securityOfAPI(o *serveOptions) core.SecurityConfig {
	security := core.SecurityConfig{Mode: o.security.mode, Programs: o.security.programs, AuditBytes: o.security.auditBytes()}
	if o.security.issuer != "" {
		security.Bearer = func(ctx context.Context, jwt string) (*auth.Principal, error) {
			return s.who.Load().jwt.Principal(ctx, jwt)
		}
	}
	security.Certificate = func(conn *tls.ConnectionState, header string) (*auth.Principal, string, error) {
		return s.who.Load().certificateOf(conn, header)
	}
	if s.audit != nil {
		security.Audit, security.AdmitChange = s.audit.add, s.audit.admit
	}
	return security
}

// run serves until ctx ends or a fatal error occurs. It then stops in an order that
// loses no request: it hands leadership over while requests still find a way to the new
// leader, lets them end, and stops raft. The guard bounds the stop. After a fatal error it ends within a second:
// the process exits if a part hangs.
func (s *server) run(ctx context.Context, guard *exitGuard, r *reloader) error {
	served := make(chan error, 3)
	go func() { served <- s.api.Serve(s.listen) }()
	go func() {
		if err := s.api.ServeNodes(s.node.PeerListener(), cluster.PeerPath, s.peerHandler()); !errors.Is(err, http.ErrServerClosed) && !errors.Is(err, net.ErrClosed) {
			served <- fmt.Errorf("serve the calls of other nodes: %w", err)
		}
	}()
	if s.legacy != nil {
		go func() {
			if err := s.api.ServeLegacy(s.legacy); err != nil {
				served <- err
			}
		}()
	}
	stopAdmin := serveAdmin(s.log, s.network, s.dataDir, s.api.AsAdmin())
	defer stopAdmin()
	unsafe := s.keepProving(ctx)
	bootstrapped := view.Background(ctx, s.addFirstToken)
	defer bootstrapped()
	if s.keeper != nil {
		kept := view.Background(ctx, s.keeper.Run)
		defer kept()
	}
	reloading := view.Background(ctx, func(ctx context.Context) { r.run(ctx, s) })
	defer reloading()
	s.log.Info("serving", s.scheme, s.listen.Addr(), "pid", pid())
	notify(s.log, daemon.SdNotifyReady)
	watched := view.Background(ctx, s.watchdog)
	defer watched()

	patience := httpStopTimeout
	var failure error
	select {
	case <-ctx.Done():
		failure = s.leave()
	case <-s.drain.Began():
		guard.within(stopLimit)
		failure = s.leave()
	case failure = <-s.node.Fatal():
	case failure = <-unsafe:
	case failure = <-served:
	}
	if failure != nil {
		guard.within(fatalLimit)
		patience = fatalLimit / 2
	}
	ended := make(chan struct{})
	defer close(ended)
	go func() { // the disk may begin to hang during the stop
		select {
		case err := <-s.node.Fatal():
			s.log.Error("this node must stop at once", "error", err)
			guard.within(fatalLimit)
		case <-ended:
		}
	}()
	stop, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	s.original.Close()
	defer func() { s.who.Load().close() }()
	shutdown := s.api.Shutdown(stop)
	s.past.Close()
	return errors.Join(failure, shutdown, s.node.Close(), s.bucket.Close(), s.closeAudit(), s.tracer.Close(stop))
}

// leave makes the node not ready, and hands leadership over.
func (s *server) leave() error {
	s.log.Info("stopping")
	s.drain.Begin()
	notify(s.log, daemon.SdNotifyStopping)
	return s.stepDown()
}

// stepDown hands leadership over. It returns early, with the error, if a fatal error
// occurs.
func (s *server) stepDown() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepDownTimeout)
	defer cancel()
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.node.StepDown(ctx)
	}()
	select {
	case <-done:
		return nil
	case err := <-s.node.Fatal():
		return err
	}
}
