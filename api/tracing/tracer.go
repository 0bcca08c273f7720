package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client/telemetry/tracing"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

const (
	// linksMax is the number of writes to which the span of a flush has links.
	linksMax = 100
	// burst is the number of operations whose spans are made together. In a leader under load, a span
	// took more than twice as long when each request made its own: code and data were not in the
	// caches, and the stack of the request's goroutine had to grow.
	burst = 64
)

// Tracer makes the spans of a node. Its methods are safe for concurrent use.
//
// It makes finished spans: a span of the SDK is made before its end is known, which took several
// times as long.
type Tracer struct {
	sampler sdktrace.Sampler
	out     *batcher

	mu    sync.Mutex  // guards ended
	ended []operation // that have no span yet: less than burst, and those of the writes under way

	making  sync.Mutex  // held while spans are made; locked before mu, and guards the fields below
	spare   []operation // empty; the next ended
	writes  []write     // that no flush has yet, at most linksMax
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

// New returns a tracer of a node that sends the spans that sampler chooses. The caller must call
// Close.
func New(sampler sdktrace.Sampler, send Sender, node *resource.Resource) *Tracer {
	t := &Tracer{sampler: sampler, out: newBatcher(limitsFromEnv(), send, node)}
	t.out.start(t.makeSpans)
	return t
}

// Close exports the rest until ctx ends. A nil Tracer has none.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	t.makeSpans()
	return t.out.close(ctx)
}

// Committed notes a write that was answered at lsn. The request began at began. If burst operations
// have no span yet, it makes their spans.
func (t *Tracer) Committed(began time.Time, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN) {
	if !res.LSN.IsZero() || res.Code == fsm.Duplicate {
		return
	}
	at := moment{began: began, ended: time.Now(), lsn: lsn}
	t.mu.Lock()
	t.ended = appendOperations(t.ended, at, m, res)
	full := len(t.ended) >= burst
	t.mu.Unlock()
	if full {
		t.makeSpans()
	}
}

// moment is the time and the place of a write.
type moment struct {
	began, ended time.Time
	lsn          fsm.LSN
}

// appendOperations appends the operations of a write that have spans.
func appendOperations(to []operation, at moment, m *fsmpb.Mutation, res fsm.Result) []operation {
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

// makeSpans makes the spans of all operations that have ended.
func (t *Tracer) makeSpans() {
	t.making.Lock()
	defer t.making.Unlock()
	t.makeSpansLocked()
}

// makeSpansLocked is makeSpans with the lock making held.
func (t *Tracer) makeSpansLocked() {
	t.mu.Lock()
	ended := t.ended
	t.ended = t.spare
	t.mu.Unlock()
	for i := range ended {
		t.makeSpan(&ended[i])
	}
	clear(ended) // so that it keeps no job in memory
	t.spare = ended[:0]
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
		own, parent = above.WithRemote(false), trace.SpanContext{}
	case o.verb == enqueue:
	case o.verb == claim:
		own = claimAt(j.Execution().ClaimedAt)
	case o.code.Done(): // else it may concern an earlier attempt
		parent = claimAt(j.Execution().ClaimedAt).WithRemote(true)
	}
	var room [attributesMax]attribute.KeyValue
	s := span{
		verb: o.verb, jobType: j.Type, own: own, parent: parent, kind: trace.SpanKindServer, began: o.began, ended: o.ended,
		attributes: append(room[:0],
			attribute.String("messaging.destination.name", j.Type), attribute.String("messaging.message.id", j.ID),
			attribute.Int("osqueue.attempt", int(j.Attempts)), attribute.String("osqueue.status", j.Status.String()),
			attribute.String("osqueue.lsn", o.lsn.String())),
	}
	if o.verb == claim {
		s.attributes = append(s.attributes, attribute.String("osqueue.worker", fsm.NameFor("", j.Execution().Worker)))
		if past := j.Details().History; len(past) > 0 {
			s.links = []trace.SpanContext{claimAt(past[len(past)-1].StartedAt).WithRemote(true)}
		}
	}
	if !o.code.Done() {
		s.failure = "refused: " + o.code.String()
	}
	t.out.add(&s)
	if o.verb != claim && len(t.writes) < linksMax {
		t.writes = append(t.writes, write{lsn: o.lsn, span: own})
	}
}

// attributesMax is the number of attributes of a claim, which has the most.
const attributesMax = 6

// Flushed makes the span of a write of the document, of that many bytes, which has the entries up to lsn. A
// write that only renews the heartbeat has none.
func (t *Tracer) Flushed(began time.Time, lsn fsm.LSN, bytes int) {
	ended := time.Now()
	t.making.Lock()
	defer t.making.Unlock()
	if lsn.Compare(t.flushed) == 0 {
		return
	}
	t.flushed = lsn
	t.makeSpansLocked()
	var links []trace.SpanContext
	rest := t.writes[:0]
	for _, w := range t.writes {
		if w.lsn.Compare(lsn) > 0 {
			rest = append(rest, w)
			continue
		}
		links = append(links, w.span)
	}
	t.writes = rest
	own := trace.NewSpanContext(trace.SpanContextConfig{TraceID: randomTrace(), SpanID: randomSpan(), TraceFlags: trace.FlagsSampled})
	if !t.samples(context.Background(), own.TraceID(), trace.SpanKindInternal) {
		return
	}
	t.out.add(&span{
		verb: "flush", own: own, kind: trace.SpanKindInternal, began: began, ended: ended, links: links,
		attributes: []attribute.KeyValue{attribute.String("osqueue.lsn", lsn.String()), attribute.Int("osqueue.document.bytes", bytes)},
	})
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

// below returns the context of a span of this process below parent.
func below(parent trace.SpanContext, id trace.SpanID) trace.SpanContext {
	return parent.WithSpanID(id).WithTraceFlags(parent.TraceFlags() | trace.FlagsSampled).WithRemote(false)
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
