package tracing

import (
	"context"
	"encoding/binary"
	"errors"
	"hash/fnv"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// linksMax is the number of writes to which the span of a flush has links.
const linksMax = 100

// Tracer makes the spans of a node. Its methods are safe for concurrent use.
//
// It makes finished spans: a span of the SDK is made before its end is known, which took several
// times as long.
type Tracer struct {
	sampler sdktrace.Sampler
	out     *batcher

	mu      sync.Mutex // guards the fields below
	writes  []write    // that no flush has yet, at most linksMax
	flushed fsm.LSN
}

// write is a write with a span that is exported.
type write struct {
	lsn  fsm.LSN
	span trace.SpanContext
}

// New returns a tracer of a node that sends the spans that sampler chooses. The caller must call
// Close.
func New(sampler sdktrace.Sampler, send Sender, node *resource.Resource) *Tracer {
	return &Tracer{sampler: sampler, out: newBatcher(limitsFromEnv(), send, node)}
}

// Close exports the rest until ctx ends. A nil Tracer has none.
func (t *Tracer) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	return t.out.close(ctx)
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
	above, fromHeader, exported := t.above(j)
	if !exported {
		return
	}
	own, parent := above.WithRemote(false), trace.SpanContext{}
	if fromHeader {
		own, parent = below(above, randomSpan()), above
	}
	var room [attributesMax]attribute.KeyValue
	s := spanOf(room[:0], at, "enqueue ", j, own, parent)
	t.out.add(&s)
	t.note(at.lsn, own)
}

func (t *Tracer) claimed(at moment, j *fsm.Job) {
	above, _, exported := t.above(j)
	if !exported {
		return
	}
	var room [attributesMax]attribute.KeyValue
	s := spanOf(room[:0], at, "claim ", j, below(above, claimSpan(j.ID, j.Execution().ClaimedAt)), above)
	s.attributes = append(s.attributes, attribute.String("osqueue.worker", j.Execution().Worker))
	if past := j.Details().History; len(past) > 0 {
		s.links = []trace.SpanContext{below(above, claimSpan(j.ID, past[len(past)-1].StartedAt)).WithRemote(true)}
	}
	t.out.add(&s)
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
	parent := above
	if code.Done() { // else it may concern an earlier attempt
		parent = below(above, claimSpan(j.ID, j.Execution().ClaimedAt)).WithRemote(true)
	}
	var room [attributesMax]attribute.KeyValue
	own := below(above, randomSpan())
	s := spanOf(room[:0], at, name, j, own, parent)
	if !code.Done() {
		s.failure = "refused: " + code.String()
	}
	t.out.add(&s)
	t.note(at.lsn, own)
}

// attributesMax is the number of attributes of a claim, which has the most.
const attributesMax = 6

// spanOf returns the span of a write about a job. Its attributes are in room, which is empty.
func spanOf(room []attribute.KeyValue, at moment, verb string, j *fsm.Job, own, parent trace.SpanContext) span {
	return span{
		verb: verb, jobType: j.Type, own: own, parent: parent, kind: trace.SpanKindServer, began: at.began, ended: at.ended,
		attributes: append(room,
			attribute.String("messaging.destination.name", j.Type), attribute.String("messaging.message.id", j.ID),
			attribute.Int("osqueue.attempt", int(j.Attempts)), attribute.String("osqueue.status", j.Status.String()),
			attribute.String("osqueue.lsn", at.lsn.String())),
	}
}

// note keeps the context of the span of a write for the link of the next flush.
func (t *Tracer) note(at fsm.LSN, own trace.SpanContext) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.writes) < linksMax {
		t.writes = append(t.writes, write{lsn: at, span: own})
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
	t.mu.Unlock()
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
		sc = rootOf(j.ID)
	}
	return sc, fromHeader, t.samples(ctx, sc.TraceID(), trace.SpanKindServer)
}

// samples reports whether the sampler takes a span of a trace below the span in ctx, or a root.
func (t *Tracer) samples(ctx context.Context, of trace.TraceID, kind trace.SpanKind) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{ParentContext: ctx, TraceID: of, Kind: kind}).Decision == sdktrace.RecordAndSample
}

// rootOf returns the context of the span of the enqueue of a job without parent.
func rootOf(jobID string) trace.SpanContext {
	sum := xxhash.Sum64String(jobID)
	c := trace.SpanContextConfig{SpanID: toSpanID(mixed(sum + 2)), TraceFlags: trace.FlagsSampled, Remote: true}
	binary.BigEndian.PutUint64(c.TraceID[:8], sum)
	binary.BigEndian.PutUint64(c.TraceID[8:], max(mixed(sum+1), 1))
	return trace.NewSpanContext(c)
}

// mixed returns a number each of whose bits depends on all bits of n: the finalizer of MurmurHash3.
func mixed(n uint64) uint64 {
	n = (n ^ n>>33) * 0xff51afd7ed558ccd
	n = (n ^ n>>33) * 0xc4ceb9fe1a85ec53
	return n ^ n>>33
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
