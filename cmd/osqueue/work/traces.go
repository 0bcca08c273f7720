package work

import (
	"context"
	"time"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/client/telemetry/tracing"
	"osqueue/internal/otlp"
)

// tracesTimeout bounds the export of the last spans at the end of a worker.
const tracesTimeout = 3 * time.Second

// workerTraces makes the spans of the worker, if the environment asks for them.
type workerTraces struct {
	*tracing.Tracer // nil: none, which does nothing
	stop            func(context.Context) error
	log             hclog.Logger
}

func openTraces(version string, log hclog.Logger) (*workerTraces, error) {
	exporter, err := otlp.Exporter()
	if exporter == nil || err != nil {
		return &workerTraces{}, err
	}
	otlp.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	log.Info("traces are exported")
	provider := sdktrace.NewTracerProvider(sdktrace.WithSampler(otlp.Sampler()), sdktrace.WithBatcher(exporter),
		sdktrace.WithResource(otlp.Service("osqueue-worker", attribute.String("service.version", version))))
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
