package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"osqueue/api"
	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/past"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/auth"
	"osqueue/internal/host"
	"osqueue/internal/limit"
)

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
	s := &server{log: o.node.Logger, inflight: budget, scheme: o.tls.scheme(), advertised: o.node.HTTPAdvertise}
	metrics := o.newRegistry()
	for _, w := range o.warnings() {
		s.log.Warn(w)
	}
	var err error
	if s.listen, err = net.Listen("tcp", o.httpAddr); err != nil {
		return nil, fmt.Errorf("listen for HTTP on %s: %w (another node or program uses it?)", o.httpAddr, err)
	}
	if s.legacy, err = o.legacy.listen(); err != nil {
		return nil, errors.Join(err, s.close())
	}
	if s.pprof, err = listenPprof(o.pprofAddr); err != nil {
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
	metrics.MustRegister(nodeCollector{s.node}, newTypeCollector(s.node), newWorkerCollector(s.node.View), hookCollector{s.node, sender}, newInboxCollector(s.node, box))
	s.openEnrollment(o, metrics)
	if s.audit, err = o.security.openAudit(s.log); err != nil {
		return nil, errors.Join(err, s.node.Close(), s.close())
	}
	if s.audit != nil {
		s.audit.register(metrics)
	}
	if s.oidc, err = o.security.openOIDC(s.log); err != nil {
		return nil, errors.Join(&view.UsageError{Err: err}, s.audit.close(context.Background()), s.node.Close(), s.close())
	}
	s.dataDir, s.first = o.node.DataDir, o.security.bootstrap
	s.past = past.New(past.Config{Bucket: s.bucket, Key: cluster.DocumentKey, MaxBytes: unlessAuto(o.pastMemory, shareOf(host.Memory(), pastShare))})
	s.api = api.New(core.Config{
		Past:            s.past,
		Security:        s.securityOfAPI(o),
		Legacy:          o.legacy.config(o.node.HTTPAdvertise),
		Hooks:           sender,
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
	if s.oidc != nil {
		security.Bearer = s.oidc.Principal
	}
	if o.security.roles.Uses(auth.KindCertificate) {
		security.Certificate = o.security.certificateOf
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
func (s *server) run(ctx context.Context, guard *exitGuard) error {
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
	stopPprof := s.servePprof()
	defer stopPprof()
	stopAdmin := serveAdmin(s.log, s.dataDir, s.api.AsAdmin())
	defer stopAdmin()
	unsafe := s.keepProving(ctx)
	bootstrapped := view.Background(ctx, s.addFirstToken)
	defer bootstrapped()
	if s.keeper != nil {
		kept := view.Background(ctx, s.keeper.Run)
		defer kept()
	}
	s.log.Info("serving", s.scheme, s.listen.Addr(), "pid", pid())

	patience := httpStopTimeout
	var failure error
	select {
	case <-ctx.Done():
		s.log.Info("stopping")
		failure = s.stepDown()
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
	if s.oidc != nil {
		defer s.oidc.Close()
	}
	shutdown := s.api.Shutdown(stop)
	s.past.Close()
	return errors.Join(failure, shutdown, s.node.Close(), s.bucket.Close(), s.closeAudit(), s.tracer.Close(stop))
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
