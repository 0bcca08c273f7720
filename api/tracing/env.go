package tracing

import (
	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"

	"osqueue/client/telemetry/tracing/otlp"
)

// Node describes the process in its spans.
type Node struct {
	Name    string // of the node
	Version string
}

// FromEnv returns the tracer of a node, or nil if the environment asks for no traces. Failures
// to export are logged, at most one a minute. The caller must call Close.
func FromEnv(node Node, log hclog.Logger) (*Tracer, error) {
	service := otlp.Service("osqueue", attribute.String("service.version", node.Version), attribute.String("service.instance.id", node.Name))
	send, err := otlp.Sender()
	if send == nil || err != nil {
		return nil, err
	}
	otlp.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	return New(otlp.Sampler(), send, service), nil
}
