package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"

	"github.com/hashicorp/go-hclog"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client/telemetry/tracing/otlp"
)

// Node describes the process in its spans.
type Node struct {
	Name    string // of the node
	Version string
}

// FromEnv returns the tracer of a node, or nil if the environment asks for no traces. Failures
// to export are logged, at most one a minute. The caller must call Close.
func FromEnv(ctx context.Context, node Node, log hclog.Logger) (*Tracer, error) {
	service := otlp.Service("osqueue", attribute.String("service.version", node.Version), attribute.String("service.instance.id", node.Name))
	exporter, err := otlp.Exporter(ctx)
	if exporter == nil || err != nil {
		return nil, err
	}
	otlp.OnError(func(err error) { log.Warn("traces are not exported", "error", err) })
	return New(otlp.Sampler(), service, sdktrace.WithBatcher(exporter)), nil
}

// ids are the ids of the next span that begins in a context; trace is used for a root only.
type ids struct {
	trace trace.TraceID
	span  trace.SpanID
}

type idsKey struct{}

func withIDs(ctx context.Context, of ids) context.Context {
	return context.WithValue(ctx, idsKey{}, of)
}

// generator gives spans the ids of their context, and random ones without.
type generator struct{}

// NewIDs implements sdktrace.IDGenerator.
func (generator) NewIDs(ctx context.Context) (id trace.TraceID, span trace.SpanID) {
	if of, ok := ctx.Value(idsKey{}).(ids); ok && of.trace.IsValid() {
		return of.trace, of.span
	}
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], rand.Uint64())
	return id, randomSpan()
}

// NewSpanID implements sdktrace.IDGenerator.
func (generator) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	if of, ok := ctx.Value(idsKey{}).(ids); ok {
		return of.span
	}
	return randomSpan()
}

func randomSpan() trace.SpanID { return spanOf(rand.Uint64()) }

// spanOf returns the span id of a number; 0 is not valid.
func spanOf(n uint64) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], max(n, 1))
	return id
}
