package work

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	spans "osqueue/api/tracing"
	"osqueue/client/telemetry/metrics"
	"osqueue/client/telemetry/tracing"
	"osqueue/client/worker"
)

// workerMetrics serves the figures of the worker under /metrics. A nil one does nothing.
type workerMetrics struct {
	*metrics.Worker
	listener net.Listener
	server   *http.Server
}

// newWorkerMetrics listens on addr; it returns nil if that is "".
func newWorkerMetrics(ctx context.Context, addr string, concurrency int) (*workerMetrics, error) {
	if addr == "" {
		return nil, nil
	}
	if concurrency == 0 {
		concurrency = runtime.GOMAXPROCS(0)
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--metrics-addr %q: %w", addr, err)
	}
	m := &workerMetrics{Worker: metrics.New(metrics.Config{Capacity: concurrency}), listener: listener}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	m.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 5 * time.Second, WriteTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 8 << 10,
	}
	return m, nil
}

// start serves until close.
func (m *workerMetrics) start(log *slog.Logger) {
	if m == nil {
		return
	}
	log.Info("metrics", "url", "http://"+m.listener.Addr().String()+"/metrics")
	go func() {
		if err := m.server.Serve(m.listener); !errors.Is(err, http.ErrServerClosed) {
			log.Warn("the metrics are no longer served", "error", err)
		}
	}()
}

// close ends the listener; it waits for no request.
func (m *workerMetrics) close() error {
	if m == nil {
		return nil
	}
	return errors.Join(ignoreClosed(m.server.Close()), ignoreClosed(m.listener.Close()))
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}

// queue returns q with its calls counted.
func (m *workerMetrics) queue(q worker.Queue) worker.Queue {
	if m == nil {
		return q
	}
	return m.Queue(q)
}

// finished returns a worker.Config.Finished that counts as well.
func (m *workerMetrics) finished(next func(worker.Finished)) func(worker.Finished) {
	if m == nil {
		return next
	}
	return func(f worker.Finished) {
		m.Finished(f)
		next(f)
	}
}

// tracesTimeout bounds the export of the last spans at the end of a worker.
const tracesTimeout = 3 * time.Second

// workerTraces makes the spans of the worker, if the environment asks for them.
type workerTraces struct {
	*tracing.Tracer // nil: none, which does nothing
	stop            func(context.Context) error
	log             *slog.Logger
}

func openTraces(version string, log *slog.Logger) (*workerTraces, error) {
	exporter, err := spans.Exporter()
	if exporter == nil || err != nil {
		return &workerTraces{}, err
	}
	spans.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	log.Info("traces are exported")
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(spans.Sampler()), sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(spans.Service("osqueue-worker", attribute.String("service.version", version))))
	return &workerTraces{Tracer: tracing.NewWithRoots(provider, spans.Sampled()), stop: provider.Shutdown, log: log}, nil
}

// close exports the rest.
func (t *workerTraces) close() {
	if t.stop == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), tracesTimeout)
	defer cancel()
	if err := t.stop(ctx); err != nil {
		t.log.Warn("the last traces were not exported", "error", err)
	}
}
