package serve

import (
	"time"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/api"
	"osqueue/api/tracing"
	"osqueue/cluster/flush"
	"osqueue/internal/otlp"
)

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
func (s *server) apiTracer() api.Tracer {
	if s.tracer == nil {
		return nil
	}
	return s.tracer
}
