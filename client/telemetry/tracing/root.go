package tracing

import (
	"context"
	"encoding/binary"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"
)

// RootOf returns the context of the root of the spans of a job without the header traceparent. Nodes and
// workers derive it from the id of the job, so that their spans are of one trace.
func RootOf(jobID string) trace.SpanContext {
	sum := xxhash.Sum64String(jobID)
	c := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	binary.BigEndian.PutUint64(c.TraceID[:8], sum)
	binary.BigEndian.PutUint64(c.TraceID[8:], max(mixed(sum+1), 1))
	binary.BigEndian.PutUint64(c.SpanID[:], max(mixed(sum+2), 1))
	return trace.NewSpanContext(c)
}

// mixed returns a number each of whose bits depends on all bits of n: the finalizer of MurmurHash3.
func mixed(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
}

// above returns ctx with the span above those of a job: the one that its headers name, else its root if
// the tracer knows roots.
func (t *Tracer) above(ctx context.Context, jobID string, headers map[string]string) context.Context {
	carrier := propagation.MapCarrier(headers)
	if t.sampled == nil || trace.SpanContextFromContext(t.text.Extract(context.Background(), carrier)).IsValid() {
		return t.text.Extract(ctx, carrier)
	}
	root := RootOf(jobID)
	if !t.sampled(root.TraceID()) {
		root = root.WithTraceFlags(0)
	}
	return trace.ContextWithRemoteSpanContext(ctx, root)
}
