package tracing

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/codes"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"osqueue/client/telemetry/tracing"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// node is a machine whose writes a tracer sees.
type node struct {
	m     *fsm.Machine
	t     *Tracer
	index uint64
}

// collector has the spans of a tracer.
type collector struct{ *tracetest.InMemoryExporter }

// spans returns the spans that ended since the last call.
func (c collector) spans() tracetest.SpanStubs {
	defer c.Reset()
	return c.GetSpans()
}

// newTracer returns a tracer and the collector that gets its spans.
func newTracer(t testing.TB, sampler sdktrace.Sampler) (*Tracer, collector) {
	out := tracetest.NewInMemoryExporter()
	tracer := New(sampler, sdktrace.WithSyncer(out))
	t.Cleanup(func() { _ = tracer.Close(context.Background()) })
	return tracer, collector{out}
}

func newNode(t *Tracer) *node {
	n := &node{m: fsm.New(), t: t}
	return n
}

func (n *node) do(m *fsmpb.Mutation) fsm.Result {
	n.index++
	res := n.m.Apply(n.index, 1, &fsmpb.Batch{NowMs: int64(1000 * n.index), Mutations: []*fsmpb.Mutation{m}})[0]
	n.t.Committed(time.Now(), m, res, fsm.LSN{Term: 1, Index: n.index})
	return res
}

func (n *node) enqueue(headers ...*fsmpb.Header) {
	n.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: "j1", Type: "mail", Options: &fsmpb.Options{Headers: headers}}}}}})
}

func (n *node) claim(request string) *fsmpb.Lease {
	j := n.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Claim{Claim: &fsmpb.Claim{Worker: "w", RequestId: request}}}).Jobs[0]
	return &fsmpb.Lease{JobId: j.ID, Token: j.Execution().Token}
}

func failed(l *fsmpb.Lease) *fsmpb.Mutation {
	none := int64(0)
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Fail{Fail: &fsmpb.Fail{Worker: "w", Lease: l, RetryDelayMs: &none}}}
}

func completed(l *fsmpb.Lease) *fsmpb.Mutation {
	return &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{Complete: &fsmpb.Complete{Worker: "w", Lease: l}}}
}

// twoAttempts runs a job over two attempts. The second one is at another node, which leads then.
func twoAttempts(n *node, later *Tracer, headers ...*fsmpb.Header) {
	n.enqueue(headers...)
	lease := n.claim("1")
	n.do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Group{Group: &fsmpb.Group{Mutations: []*fsmpb.Mutation{failed(lease)}}}})
	n.do(failed(lease)) // repeated
	n.t = later
	lease = n.claim("2")
	n.claim("2") // repeated
	n.do(completed(lease))
	n.do(completed(lease)) // repeated
}

// edges returns the spans as "parent > span" and the links as "span ~ span".
func edges(spans tracetest.SpanStubs, root string) []string {
	names := map[trace.SpanID]string{{}: root}
	for _, s := range spans {
		names[s.SpanContext.SpanID()] = s.Name
	}
	var out []string
	for _, s := range spans {
		out = append(out, names[s.Parent.SpanID()]+" > "+s.Name)
		for _, l := range s.Links {
			out = append(out, s.Name+" ~ "+names[l.SpanContext.SpanID()])
		}
	}
	slices.Sort(out)
	return out
}

const traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"

// A job with a traceparent is one tree below the span that it names, over two leaders.
func TestAJobIsOneTree(t *testing.T) {
	first, out := newTracer(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	second, more := newTracer(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	twoAttempts(newNode(first), second, &fsmpb.Header{Name: "traceparent", Value: traceparent})
	spans := slices.Concat(out.spans(), more.spans())
	want := []string{
		" > claim mail", " > claim mail", " > enqueue mail", "claim mail > complete mail", "claim mail > fail mail", "claim mail ~ claim mail",
	}
	if got := edges(spans, ""); !slices.Equal(got, want) {
		t.Errorf("edges\n got %q\nwant %q", got, want)
	}
	for _, s := range spans {
		if s.SpanContext.TraceID().String() != strings.Split(traceparent, "-")[1] {
			t.Errorf("%s is of another trace", s.Name)
		}
		if p := s.Parent.SpanID().String(); strings.HasPrefix(s.Name, "claim") && p != strings.Split(traceparent, "-")[2] {
			t.Errorf("%s has the parent %s", s.Name, p)
		}
	}
}

// A job without a traceparent is one tree, too.
func TestAJobWithoutParentIsOneTree(t *testing.T) {
	first, out := newTracer(t, sdktrace.AlwaysSample())
	second, more := newTracer(t, sdktrace.AlwaysSample())
	twoAttempts(newNode(first), second)
	want := []string{
		"claim mail > complete mail", "claim mail > fail mail", "claim mail ~ claim mail",
		"enqueue mail > claim mail", "enqueue mail > claim mail", "nothing > enqueue mail",
	}
	if got := edges(slices.Concat(out.spans(), more.spans()), "nothing"); !slices.Equal(got, want) {
		t.Errorf("edges\n got %q\nwant %q", got, want)
	}
}

// The sampler decides once about a job.
func TestSampling(t *testing.T) {
	never, out := newTracer(t, sdktrace.ParentBased(sdktrace.NeverSample()))
	twoAttempts(newNode(never), never)
	always, more := newTracer(t, sdktrace.ParentBased(sdktrace.AlwaysSample()))
	twoAttempts(newNode(always), always, &fsmpb.Header{Name: "traceparent", Value: strings.TrimSuffix(traceparent, "1") + "0"})
	if n := len(out.spans()) + len(more.spans()); n != 0 {
		t.Errorf("%d spans of jobs that are not sampled", n)
	}
}

// A sampler of a ratio takes that share of the jobs, also if their ids differ little.
func TestShareOfTheTraces(t *testing.T) {
	t.Parallel()
	tracer, _ := newTracer(t, sdktrace.ParentBased(sdktrace.TraceIDRatioBased(0.1)))
	m, n := fsm.New(), 0
	for i := range 10_000 {
		id := fmt.Sprintf("%05d", i)
		op := &fsmpb.Enqueue{Jobs: []*fsmpb.NewJob{{Id: id, Type: "mail"}}}
		j := m.Apply(uint64(i+1), 1, &fsmpb.Batch{Mutations: []*fsmpb.Mutation{{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}}}})[0].Jobs[0]
		if _, _, exported := tracer.above(j); exported {
			n++
		}
	}
	if n < 900 || n > 1100 { // more than three standard deviations
		t.Errorf("%d of 10000 traces are exported", n)
	}
}

// A report that is refused has a span with the reason.
func TestRefusedReport(t *testing.T) {
	tracer, out := newTracer(t, sdktrace.AlwaysSample())
	n := newNode(tracer)
	n.enqueue()
	lease := n.claim("1")
	lease.Token++
	n.do(completed(lease))
	spans := out.spans()
	if last := spans[len(spans)-1]; last.Name != "complete mail" || last.Status != (sdktrace.Status{Code: codes.Error, Description: "refused: stale_token"}) {
		t.Errorf("%s: %v", last.Name, last.Status)
	}
}

// A flush is linked to the writes that it has, and to no later one; a heartbeat has no span.
func TestFlush(t *testing.T) {
	tracer, out := newTracer(t, sdktrace.AlwaysSample())
	n := newNode(tracer)
	n.enqueue()
	lease := n.claim("1")
	flushed := fsm.LSN{Term: 1, Index: n.index}
	n.do(completed(lease))
	out.spans()
	tracer.Flushed(time.Now(), flushed, 1)
	tracer.Flushed(time.Now(), flushed, 1)
	tracer.Flushed(time.Now(), fsm.LSN{Term: 1, Index: n.index}, 1)
	spans := out.spans()
	if len(spans) != 2 || len(spans[0].Links) != 1 || len(spans[1].Links) != 1 {
		t.Fatalf("%+v", spans)
	}
	root := tracing.RootOf("j1")
	if spans[0].Links[0].SpanContext.SpanID() != root.SpanID() || spans[0].SpanContext.TraceID() == root.TraceID() {
		t.Errorf("the first flush is %+v", spans[0])
	}
}

// The writes that wait for a flush are bounded.
func TestWritesAreBounded(t *testing.T) {
	tracer, _ := newTracer(t, sdktrace.AlwaysSample())
	op := &fsmpb.Enqueue{}
	for range 3 * linksMax {
		op.Jobs = append(op.Jobs, &fsmpb.NewJob{Id: string(rune(0x4e00 + len(op.Jobs)))})
	}
	newNode(tracer).do(&fsmpb.Mutation{Op: &fsmpb.Mutation_Enqueue{Enqueue: op}})
	if n := len(tracer.writes); n != linksMax {
		t.Errorf("%d writes", n)
	}
}

// A type that is not UTF-8 is exported, and its span is not lost.
func TestTypeThatIsNoText(t *testing.T) {
	tracer, out := newTracer(t, sdktrace.AlwaysSample())
	j := &fsm.Job{ID: "j1", Type: "wei\xffrd"}
	tracer.Committed(time.Now(), &fsmpb.Mutation{Op: &fsmpb.Mutation_Complete{}}, fsm.Result{Code: fsm.OK, Jobs: []*fsm.Job{j}}, fsm.LSN{})
	if spans := out.spans(); len(spans) != 1 || spans[0].Name != "complete wei\ufffdrd" || spans[0].Attributes[0].Value.AsString() != "wei\ufffdrd" {
		t.Errorf("%+v", spans)
	}
}
