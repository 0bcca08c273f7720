package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client/telemetry/tracing"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/tenants"
)

// linksMax is the number of writes to which the span of a flush has links.
const linksMax = 100

// Tracer makes the spans of a node. Its methods are safe for concurrent use.
type Tracer struct {
	sampler  sdktrace.Sampler
	provider *sdktrace.TracerProvider // takes what the sampler has chosen
	tracer   trace.Tracer

	mu      sync.Mutex // guards the fields below
	writes  []write    // that no flush has yet, at most linksMax
	flushed fsm.LSN
}

// operation is the outcome of a write for one job.
type operation struct {
	moment
	verb string
	job  *fsm.Job // as the write left it
	code fsm.Code
}

// The verbs of operations that are no reports.
const (
	enqueue = "enqueue "
	claim   = "claim "
)

// write is a write with a span that is exported.
type write struct {
	lsn  fsm.LSN
	span trace.SpanContext
}

// New returns a tracer of a node that exports the spans that sampler chooses, as the options say. The
// caller must call Close.
func New(sampler sdktrace.Sampler, opts ...sdktrace.TracerProviderOption) *Tracer {
	p := sdktrace.NewTracerProvider(append(opts, sdktrace.WithSampler(sdktrace.AlwaysSample()), sdktrace.WithIDGenerator(ids{}))...)
	return &Tracer{sampler: sampler, provider: p, tracer: p.Tracer("osqueue/api/tracing")}
}

// Close exports the rest until ctx ends. A nil Tracer has none.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.provider.Shutdown(ctx)
}

// Committed makes the spans of a write that was answered at lsn. The request began at began.
func (t *Tracer) Committed(began time.Time, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) {
	if !res.LSN.IsZero() || res.Code == fsm.Duplicate {
		return
	}
	at := moment{began: began, ended: time.Now(), lsn: lsn}
	for _, o := range operations(at, m, res) {
		t.makeSpan(&o)
	}
}

// moment is the time and the place of a write.
type moment struct {
	began, ended time.Time
	lsn          fsm.LSN
}

// operations returns the operations of a write that have spans.
func operations(at moment, m *fsmpb.Mutation, res fsm.Result) (to []operation) {
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		for i, j := range res.Jobs {
			if j != nil && res.Code.Done() && (i >= len(res.Codes) || res.Codes[i] == fsm.OK) {
				to = append(to, operation{moment: at, verb: enqueue, job: j, code: fsm.OK})
			}
		}
	case *fsmpb.Mutation_Claim:
		for _, j := range res.Jobs {
			to = append(to, operation{moment: at, verb: claim, job: j, code: fsm.OK})
		}
	case *fsmpb.Mutation_Group:
		for i, part := range op.Group.Mutations {
			if i < len(res.Jobs) && i < len(res.Codes) && res.Codes[i] != fsm.Duplicate {
				to = appendReport(to, at, part, res.Jobs[i], res.Codes[i])
			}
		}
	default:
		if len(res.Jobs) == 1 {
			to = appendReport(to, at, m, res.Jobs[0], res.Code)
		}
	}
	return to
}

// appendReport appends the operation of a report on a job; j is nil if there is no such job.
func appendReport(to []operation, at moment, m *fsmpb.Mutation, j *fsm.Job, code fsm.Code) []operation {
	verb := ""
	switch m.Op.(type) {
	case *fsmpb.Mutation_Complete:
		verb = "complete "
	case *fsmpb.Mutation_Fail:
		verb = "fail "
	case *fsmpb.Mutation_Release:
		verb = "release "
	}
	if j == nil || verb == "" {
		return to
	}
	return append(to, operation{moment: at, verb: verb, job: j, code: code})
}

func (t *Tracer) makeSpan(o *operation) {
	j := o.job
	above, fromHeader, exported := t.above(j)
	if !exported {
		return
	}
	claimAt := func(ms int64) trace.SpanContext { return below(above, claimSpan(j.ID, ms)) }
	own, parent := below(above, randomSpan()), above
	switch {
	case o.verb == enqueue && !fromHeader:
		own, parent = above, trace.SpanContext{}
	case o.verb == enqueue:
	case o.verb == claim:
		own = claimAt(j.Execution().ClaimedAt)
	case o.code.Done(): // else it may concern an earlier attempt
		parent = claimAt(j.Execution().ClaimedAt)
	}
	attributes := []attribute.KeyValue{
		attribute.String("messaging.destination.name", valid(j.Type)), attribute.String("messaging.message.id", valid(j.ID)),
		attribute.Int("osqueue.attempt", int(j.Attempts)), attribute.String("osqueue.status", j.Status.String()),
		attribute.String("osqueue.lsn", o.lsn.String()),
	}
	var links []trace.Link
	if o.verb == claim {
		attributes = append(attributes, attribute.String("osqueue.worker", valid(tenants.NameFor("", j.Execution().Worker))))
		if past := j.Details().History; len(past) > 0 {
			links = append(links, trace.Link{SpanContext: claimAt(past[len(past)-1].StartedAt)})
		}
	}
	s := t.start(own, parent, o.verb+valid(j.Type), trace.SpanKindServer, o.began, attributes, links)
	if !o.code.Done() {
		s.SetStatus(codes.Error, "refused: "+o.code.String())
	}
	s.End(trace.WithTimestamp(o.ended))
	if o.verb != claim {
		t.mu.Lock()
		defer t.mu.Unlock()
		if len(t.writes) < linksMax {
			t.writes = append(t.writes, write{lsn: o.lsn, span: own})
		}
	}
}

// start begins the span whose context is own, below parent if that is valid.
func (t *Tracer) start(own, parent trace.SpanContext, name string, kind trace.SpanKind, at time.Time, with []attribute.KeyValue, links []trace.Link) trace.Span {
	ctx := context.WithValue(context.Background(), ownKey{}, own)
	if parent.IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, parent)
	}
	_, s := t.tracer.Start(ctx, name, trace.WithSpanKind(kind), trace.WithTimestamp(at), trace.WithAttributes(with...), trace.WithLinks(links...))
	return s
}

// ownKey is the key of the context of a span that is to begin.
type ownKey struct{}

// ids is the sdktrace.IDGenerator that gives each span the ids of its context.
type ids struct{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	own := ctx.Value(ownKey{}).(trace.SpanContext)
	return own.TraceID(), own.SpanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(ctx context.Context, _ trace.TraceID) trace.SpanID {
	return ctx.Value(ownKey{}).(trace.SpanContext).SpanID()
}

// valid returns a text that is UTF-8: a batch with another one could not be encoded.
func valid(s string) string { return strings.ToValidUTF8(s, "\ufffd") }

// Flushed makes the span of a write of the document, of that many bytes, which has the entries up to lsn. A
// write that only renews the heartbeat has none.
func (t *Tracer) Flushed(began time.Time, lsn fsm.LSN, bytes int) {
	ended := time.Now()
	links, found := t.take(lsn)
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: randomTrace(), SpanID: randomSpan()})
	if !found || !t.samples(context.Background(), own.TraceID(), trace.SpanKindInternal) {
		return
	}
	attributes := []attribute.KeyValue{attribute.String("osqueue.lsn", lsn.String()), attribute.Int("osqueue.document.bytes", bytes)}
	t.start(own, trace.SpanContext{}, "flush", trace.SpanKindInternal, began, attributes, links).End(trace.WithTimestamp(ended))
}

// take removes the writes up to lsn; it returns false if a flush up to lsn was seen before.
func (t *Tracer) take(lsn fsm.LSN) (links []trace.Link, found bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if lsn.Compare(t.flushed) == 0 {
		return nil, false
	}
	t.flushed = lsn
	t.writes = slices.DeleteFunc(t.writes, func(w write) bool {
		gone := w.lsn.Compare(lsn) <= 0
		if gone {
			links = append(links, trace.Link{SpanContext: w.span})
		}
		return gone
	})
	return links, true
}

// above returns the span above the claims of a job, which is that of its headers or that of its
// enqueue, and whether spans below it are exported. Most are not, so nothing is made before the
// sampler has said so. For a job without parent it decides as for the enqueue, on whatever node that
// was: each sampler of OTEL_TRACES_SAMPLER takes all spans of such a trace or none.
func (t *Tracer) above(j *fsm.Job) (sc trace.SpanContext, fromHeader, exported bool) {
	ctx := context.Background()
	if h := headers(j.Options().Headers); len(h) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, h)
		sc = trace.SpanContextFromContext(ctx)
	}
	if fromHeader = sc.IsValid(); !fromHeader {
		sc = tracing.RootOf(j.ID)
	}
	return sc, fromHeader, t.samples(ctx, sc.TraceID(), trace.SpanKindServer)
}

// samples reports whether the sampler takes a span of a trace below the span in ctx, or a root.
func (t *Tracer) samples(ctx context.Context, of trace.TraceID, kind trace.SpanKind) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: of, Kind: kind}).Decision == sdktrace.RecordAndSample
}

// below returns the context of a span below parent, of this process or of an earlier leader.
func below(parent trace.SpanContext, id trace.SpanID) trace.SpanContext {
	return parent.WithSpanID(id).WithTraceFlags(parent.TraceFlags() | trace.FlagsSampled)
}

// claimSpan returns the id of the span of a claim.
func claimSpan(jobID string, claimedAt int64) trace.SpanID {
	h := fnv.New64a()
	_, _ = h.Write([]byte(jobID))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(claimedAt)))
	return toSpanID(h.Sum64())
}

func randomTrace() (id trace.TraceID) {
	binary.BigEndian.PutUint64(id[:8], rand.Uint64())
	binary.BigEndian.PutUint64(id[8:], max(rand.Uint64(), 1))
	return id
}

func randomSpan() trace.SpanID { return toSpanID(rand.Uint64()) }

// toSpanID returns the span id of a number; 0 is not valid.
func toSpanID(n uint64) (id trace.SpanID) {
	binary.BigEndian.PutUint64(id[:], max(n, 1))
	return id
}

// headers are the headers of a job as a propagation.TextMapCarrier that nothing writes to.
type headers []*fsmpb.Header

// Get implements propagation.TextMapCarrier.
func (h headers) Get(name string) string {
	for i := range h {
		if h[i].Name == name {
			return h[i].Value
		}
	}
	return ""
}

// Set implements propagation.TextMapCarrier.
func (headers) Set(string, string) { panic(errors.ErrUnsupported) }

// Keys implements propagation.TextMapCarrier.
func (h headers) Keys() []string {
	names := make([]string, len(h))
	for i := range h {
		names[i] = h[i].Name
	}
	return names
}
