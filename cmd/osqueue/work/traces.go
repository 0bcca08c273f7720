package work

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/client/telemetry/tracing"
	"osqueue/client/telemetry/tracing/otlp"
)

// tracesTimeout bounds the export of the last spans at the end of a worker.
const tracesTimeout = 3 * time.Second

// workerTraces makes the spans of the worker, if the environment asks for them.
type workerTraces struct {
	*tracing.Tracer // nil: none, which does nothing
	stop            func(context.Context) error
	log             hclog.Logger
}

func openTraces(ctx context.Context, version string, log hclog.Logger) (*workerTraces, error) {
	service := otlp.Service("osqueue-worker", attribute.String("service.version", version))
	provider, err := otlp.Provider(ctx, sdktrace.WithResource(service))
	if provider == nil || err != nil {
		return &workerTraces{}, err
	}
	otlp.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	log.Info("traces are exported")
	return &workerTraces{Tracer: tracing.NewWithRoots(provider, otlp.Sampled()), stop: provider.Shutdown, log: log}, nil
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
