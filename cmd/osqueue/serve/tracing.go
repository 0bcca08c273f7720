package serve

import (
	"time"

	"osqueue/api"
	"osqueue/api/tracing"
	"osqueue/cluster/flush"
)

// openTracer makes the tracer of the node, if the environment asks for one. The flusher of the
// node uses it.
func (s *server) openTracer(o *serveOptions) (err error) {
	node := tracing.Node{Name: o.node.Name, Version: o.node.Version}
	if s.tracer, err = tracing.FromEnv(node, s.log.Named("traces")); s.tracer == nil || err != nil {
		return err
	}
	s.log.Info("traces are exported")
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
