package tracing

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// linksMax is the number of writes to which the span of a flush has links.
const linksMax = 100

// Tracer makes the spans of a node. Its methods are safe for concurrent use.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler // that of provider

	mu      sync.Mutex // guards the fields below
	writes  []write    // that no flush has yet, at most linksMax
	flushed fsm.LSN
}

// write is a write with a span that is exported.
type write struct {
	lsn  fsm.LSN
	span trace.SpanContext
}

// New returns a tracer whose spans sampler chooses. options are those of its provider.
func New(sampler sdktrace.Sampler, options ...sdktrace.TracerProviderOption) *Tracer {
	provider := sdktrace.NewTracerProvider(append(options, sdktrace.WithSampler(sampler), sdktrace.WithIDGenerator(generator{}))...)
	return &Tracer{provider: provider, tracer: provider.Tracer("osqueue/api/tracing"), sampler: sampler}
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
	switch op := m.Op.(type) {
	case *fsmpb.Mutation_Enqueue:
		for i, j := range res.Jobs {
			if j != nil && res.Code.Done() && (i >= len(res.Codes) || res.Codes[i] == fsm.OK) {
				t.enqueued(at, j)
			}
		}
	case *fsmpb.Mutation_Claim:
		for _, j := range res.Jobs {
			t.claimed(at, j)
		}
	case *fsmpb.Mutation_Group:
		for i, part := range op.Group.Mutations {
			if i < len(res.Jobs) && i < len(res.Codes) && res.Codes[i] != fsm.Duplicate {
				t.reported(at, part, res.Jobs[i], res.Codes[i])
			}
		}
	default:
		if len(res.Jobs) == 1 {
			t.reported(at, m, res.Jobs[0], res.Code)
		}
	}
}

// moment is the time and the place of a write.
type moment struct {
	began, ended time.Time
	lsn          fsm.LSN
}

func (t *Tracer) enqueued(at moment, j *fsm.Job) {
	above, own, exported := t.above(j)
	if !exported {
		return
	}
	ctx := withIDs(context.Background(), ids{trace: above.TraceID(), span: above.SpanID()})
	if own {
		ctx = under(above)
	}
	t.note(at, t.start(ctx, at, "enqueue "+j.Type, j))
}

func (t *Tracer) claimed(at moment, j *fsm.Job) {
	above, _, exported := t.above(j)
	if !exported {
		return
	}
	span := t.start(withIDs(under(above), ids{span: claimSpan(j.ID, j.Execution().ClaimedAt)}), at, "claim "+j.Type, j)
	if !span.IsRecording() {
		return
	}
	span.SetAttributes(attribute.String("osqueue.worker", j.Execution().Worker))
	if past := j.Details().History; len(past) > 0 {
		span.AddLink(trace.Link{SpanContext: claimContext(above, j.ID, past[len(past)-1].StartedAt)})
	}
	span.End(trace.WithTimestamp(at.ended))
}

// reported makes the span of a report on a job; j is nil if there is no such job.
func (t *Tracer) reported(at moment, m *fsmpb.Mutation, j *fsm.Job, code fsm.Code) {
	name := ""
	switch m.Op.(type) {
	case *fsmpb.Mutation_Complete:
		name = "complete "
	case *fsmpb.Mutation_Fail:
		name = "fail "
	case *fsmpb.Mutation_Release:
		name = "release "
	}
	if j == nil || name == "" {
		return
	}
	above, _, exported := t.above(j)
	if !exported {
		return
	}
	if code.Done() { // else it may concern an earlier attempt
		above = claimContext(above, j.ID, j.Execution().ClaimedAt)
	}
	span := t.start(under(above), at, name+j.Type, j)
	if !code.Done() {
		span.SetStatus(codes.Error, "refused: "+code.String())
	}
	t.note(at, span)
}

// start begins a span of a job.
func (t *Tracer) start(ctx context.Context, at moment, name string, j *fsm.Job) trace.Span {
	_, span := t.tracer.Start(ctx, name, trace.WithTimestamp(at.began), trace.WithSpanKind(trace.SpanKindServer), trace.WithAttributes(
		attribute.String("messaging.destination.name", j.Type), attribute.String("messaging.message.id", j.ID),
		attribute.Int("osqueue.attempt", int(j.Attempts)), attribute.String("osqueue.status", j.Status.String()),
		attribute.String("osqueue.lsn", at.lsn.String()),
	))
	return span
}

// note ends the span of a write, and keeps its context for the link of the next flush.
func (t *Tracer) note(at moment, span trace.Span) {
	span.End(trace.WithTimestamp(at.ended))
	if !span.SpanContext().IsSampled() {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.writes) < linksMax {
		t.writes = append(t.writes, write{lsn: at.lsn, span: span.SpanContext()})
	}
}

// Flushed makes the span of a write of the document, of that many bytes, which has the entries up to lsn. A
// write that only renews the heartbeat has none.
func (t *Tracer) Flushed(began time.Time, lsn fsm.LSN, bytes int) {
	ended := time.Now()
	t.mu.Lock()
	if lsn.Compare(t.flushed) == 0 {
		t.mu.Unlock()
		return
	}
	t.flushed = lsn
	var links []trace.Link
	rest := t.writes[:0]
	for _, w := range t.writes {
		if w.lsn.Compare(lsn) > 0 {
			rest = append(rest, w)
			continue
		}
		links = append(links, trace.Link{SpanContext: w.span})
	}
	t.writes = rest
	t.mu.Unlock()
	_, span := t.tracer.Start(context.Background(), "flush", trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithLinks(links...),
		trace.WithAttributes(attribute.String("osqueue.lsn", lsn.String()), attribute.Int("osqueue.document.bytes", bytes)))
	span.End(trace.WithTimestamp(ended))
}

// above returns the span above the claims of a job, which is that of its headers (own) or that of
// its enqueue, and whether spans below it are exported. Most are not, so nothing is made before the
// sampler has said so. For a job without parent it decides as for the enqueue, on whatever node that
// was: each sampler of OTEL_TRACES_SAMPLER takes all spans of such a trace or none.
func (t *Tracer) above(j *fsm.Job) (sc trace.SpanContext, own, exported bool) {
	ctx := context.Background()
	if h := headers(j.Options().Headers); len(h) > 0 {
		ctx = propagation.TraceContext{}.Extract(ctx, h)
		sc = trace.SpanContextFromContext(ctx)
	}
	if own = sc.IsValid(); !own {
		sc = rootOf(j.ID)
	}
	by := t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: sc.TraceID(), Kind: trace.SpanKindServer})
	return sc, own, by.Decision == sdktrace.RecordAndSample
}

// rootOf returns the context of the span of the enqueue of a job without parent.
func rootOf(jobID string) trace.SpanContext {
	sum := sha256.Sum256([]byte(jobID))
	return trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID(sum[:16]), SpanID: trace.SpanID(sum[16:24]), TraceFlags: trace.FlagsSampled, Remote: true,
	})
}

// under returns the context of spans below sc, which another process may have made.
func under(sc trace.SpanContext) context.Context {
	return trace.ContextWithRemoteSpanContext(context.Background(), sc)
}

// claimSpan returns the id of the span of a claim.
func claimSpan(jobID string, claimedAt int64) trace.SpanID {
	h := fnv.New64a()
	_, _ = h.Write([]byte(jobID))
	_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(claimedAt)))
	return spanOf(h.Sum64())
}

// claimContext returns the context of the span of a claim, whose parent is in root.
func claimContext(root trace.SpanContext, jobID string, claimedAt int64) trace.SpanContext {
	return root.WithSpanID(claimSpan(jobID, claimedAt))
}

// headers are the headers of a job as a propagation.TextMapCarrier that nothing writes to.
type headers []fsm.Header

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
