package tracing

import (
	"sync"

	"go.opentelemetry.io/otel/trace"
)

// recentMax is the number of contexts after which the older half of them is dropped.
const recentMax = 10_000

// recent has the contexts of spans by key. It keeps at least the last recentMax and at most
// twice as many. The zero value is ready for use.
type recent[K comparable] struct {
	mu       sync.Mutex // guards the fields below
	now, old map[K]trace.SpanContext
}

func (r *recent[K]) put(key K, span trace.SpanContext) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.now == nil || len(r.now) >= recentMax {
		r.now, r.old = make(map[K]trace.SpanContext), r.now
	}
	r.now[key] = span
}

func (r *recent[K]) get(key K) (trace.SpanContext, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	span, ok := r.now[key]
	if !ok {
		span, ok = r.old[key]
	}
	return span, ok
}

func (r *recent[K]) drop(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.now, key)
	delete(r.old, key)
}
