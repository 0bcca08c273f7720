package tracing

import (
	"context"
	"errors"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/resource"
	"go.opentelemetry.io/otel/trace"
	commonpb "go.opentelemetry.io/proto/otlp/common/v1"
	resourcepb "go.opentelemetry.io/proto/otlp/resource/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

func textValue(key, value string) *commonpb.KeyValue {
	return &commonpb.KeyValue{Key: key, Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_StringValue{StringValue: value}}}
}

// A request has every field of its spans, in the message of OpenTelemetry.
func TestEncoding(t *testing.T) {
	t.Parallel()
	state, err := trace.ParseTraceState("a=b")
	if err != nil {
		t.Fatal(err)
	}
	parent := trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1, 2}, SpanID: trace.SpanID{3}, TraceFlags: trace.FlagsSampled, Remote: true, TraceState: state,
	})
	own := below(parent, trace.SpanID{4})
	began := time.Unix(1, 2)
	spans := appendSpan(nil, &span{
		verb: "enqueue ", jobType: "wei\xffrd", own: own, parent: parent, kind: trace.SpanKindServer, began: began, ended: began.Add(time.Second),
		attributes: []attribute.KeyValue{attribute.String("s", "x"), attribute.Int("n", -5)},
		links:      []trace.SpanContext{own, parent}, failure: "refused",
	})
	spans = appendSpan(spans, &span{
		verb: "flush", own: parent.WithRemote(false).WithTraceState(trace.TraceState{}), kind: trace.SpanKindInternal, began: time.Unix(-1, 0), ended: began,
	})
	got := new(tracepb.TracesData)
	request := append(appendHead(nil, resource.NewSchemaless(attribute.String("service.name", "q")), len(spans)), spans...)
	if err := proto.Unmarshal(request, got); err != nil {
		t.Fatal(err)
	}
	traceID, known := parent.TraceID(), uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_HAS_IS_REMOTE_MASK)|1
	remote := known | uint32(tracepb.SpanFlags_SPAN_FLAGS_CONTEXT_IS_REMOTE_MASK)
	first, second := []byte{3, 0, 0, 0, 0, 0, 0, 0}, []byte{4, 0, 0, 0, 0, 0, 0, 0}
	want := &tracepb.TracesData{ResourceSpans: []*tracepb.ResourceSpans{{
		Resource: &resourcepb.Resource{Attributes: []*commonpb.KeyValue{textValue("service.name", "q")}},
		ScopeSpans: []*tracepb.ScopeSpans{{Scope: &commonpb.InstrumentationScope{Name: "osqueue/api/tracing"}, Spans: []*tracepb.Span{
			{
				TraceId: traceID[:], SpanId: second, TraceState: "a=b", ParentSpanId: first, Flags: remote,
				Name: "enqueue wei\ufffdrd", Kind: tracepb.Span_SPAN_KIND_SERVER, StartTimeUnixNano: 1_000_000_002, EndTimeUnixNano: 2_000_000_002,
				Attributes: []*commonpb.KeyValue{
					textValue("s", "x"),
					{Key: "n", Value: &commonpb.AnyValue{Value: &commonpb.AnyValue_IntValue{IntValue: -5}}},
				},
				Links:  []*tracepb.Span_Link{{TraceId: traceID[:], SpanId: second, Flags: known}, {TraceId: traceID[:], SpanId: first, Flags: remote}},
				Status: &tracepb.Status{Message: "refused", Code: tracepb.Status_STATUS_CODE_ERROR},
			},
			{TraceId: traceID[:], SpanId: first, Flags: known, Name: "flush", Kind: tracepb.Span_SPAN_KIND_INTERNAL, EndTimeUnixNano: 1_000_000_002},
		}}},
	}}}
	if !proto.Equal(got, want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
}

// hanging returns a batcher whose collector takes one request when taken is read, and the requests' spans.
func hanging(t *testing.T, l limits) (b *batcher, taken chan int) {
	t.Helper()
	taken = make(chan int)
	b = newBatcher(l, func(ctx context.Context, request []byte) error {
		in := new(tracepb.TracesData)
		if err := proto.Unmarshal(request, in); err != nil {
			return err
		}
		select {
		case taken <- len(in.ResourceSpans[0].ScopeSpans[0].Spans):
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}, resource.Empty())
	b.start(func() {})
	return b, taken
}

// A full batch is sent at once. Spans above the queue are dropped, and the rest is sent at the end.
func TestBatches(t *testing.T) {
	t.Parallel()
	b, taken := hanging(t, limits{queue: 5, batch: 2, delay: time.Hour, timeout: time.Hour})
	for range 2 {
		b.add(&span{})
	}
	for waits := true; waits; time.Sleep(time.Millisecond) { // until the request is on its way
		b.mu.Lock()
		waits = b.spans > 0
		b.mu.Unlock()
	}
	for range 10 {
		b.add(&span{})
	}
	ended := make(chan error, 1)
	go func() { ended <- b.close(t.Context()) }()
	for _, want := range []int{2, 2, 2, 1} {
		if got := <-taken; got != want {
			t.Errorf("a request has %d spans, want %d", got, want)
		}
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	b.add(&span{})
	if err := b.close(t.Context()); err != nil || b.spans != 0 {
		t.Errorf("%d spans wait after the end: %v", b.spans, err)
	}
}

// The buffer of a batch is used again after the batch was sent, with nothing of it.
func TestBuffersAreUsedAgain(t *testing.T) {
	t.Parallel()
	requests := make(chan []byte, 1)
	b := newBatcher(limits{queue: 5, batch: 1, delay: time.Hour, timeout: time.Hour}, func(_ context.Context, request []byte) error {
		requests <- request
		return nil
	}, resource.NewSchemaless(attribute.String("service.name", "q")))
	var sizes []int
	for i, verb := range []string{"enqueue ", "claim "} {
		b.add(&span{verb: verb})
		next, _ := b.next(false)
		b.upload(t.Context(), next)
		request, in := <-requests, new(tracepb.TracesData)
		if err := proto.Unmarshal(request, in); err != nil {
			t.Fatal(err)
		}
		if spans := in.ResourceSpans[0].ScopeSpans[0].Spans; len(spans) != 1 || spans[0].Name != verb {
			t.Errorf("request %d has %v", i, spans)
		}
		sizes = append(sizes, cap(request))
	}
	if sizes[0] != sizes[1] {
		t.Errorf("buffers of %v bytes", sizes)
	}
}

// A batch that is not full is sent after the delay.
func TestDelayOfABatch(t *testing.T) {
	t.Parallel()
	b, taken := hanging(t, limits{queue: 5, batch: 5, delay: time.Millisecond, timeout: time.Hour})
	b.add(&span{})
	if got := <-taken; got != 1 {
		t.Errorf("%d spans", got)
	}
	if err := b.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A batch that is not full has no followers before the next delay, also if spans end all the time.
func TestBatchesAreRareUnderLoad(t *testing.T) {
	t.Parallel()
	const delay, want = 20 * time.Millisecond, 6
	requests := make(chan struct{}, 1000)
	var b *batcher
	b = newBatcher(limits{queue: 5, batch: 5, delay: delay, timeout: time.Hour}, func(context.Context, []byte) error {
		select {
		case requests <- struct{}{}:
		default:
		}
		b.add(&span{})
		return nil
	}, resource.Empty())
	b.start(func() {})
	began := time.Now()
	b.add(&span{})
	for range want {
		<-requests
	}
	if took := time.Since(began); took < want/2*delay {
		t.Errorf("%d requests in %v", want, took)
	}
	if err := b.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// A collector that hangs delays the end until the context of Close ends.
func TestHangingCollector(t *testing.T) {
	t.Parallel()
	b, _ := hanging(t, limits{queue: 5, batch: 1, delay: time.Hour, timeout: time.Hour})
	b.add(&span{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := b.close(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	<-b.done
}

// A collector that hangs delays the next batch by the timeout.
func TestTimeoutOfABatch(t *testing.T) {
	t.Parallel()
	calls := make(chan error, 2)
	b := newBatcher(limits{queue: 5, batch: 1, delay: time.Hour, timeout: time.Millisecond}, func(ctx context.Context, _ []byte) error {
		<-ctx.Done()
		calls <- ctx.Err()
		return nil
	}, resource.Empty())
	b.start(func() {})
	b.add(&span{})
	b.add(&span{})
	for range 2 {
		if err := <-calls; !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
	}
	if err := b.close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The limits are those of the environment; a value that is none is reported.
func TestLimits(t *testing.T) {
	var reported []error
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) { reported = append(reported, err) }))
	defer otel.SetErrorHandler(otel.ErrorHandlerFunc(func(error) {}))
	if got, want := limitsFromEnv(), (limits{queue: 2048, batch: 512, delay: 5 * time.Second, timeout: 30 * time.Second}); got != want {
		t.Errorf("%+v without the environment", got)
	}
	t.Setenv("OTEL_BSP_MAX_QUEUE_SIZE", "100")
	t.Setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "-1")
	t.Setenv("OTEL_BSP_SCHEDULE_DELAY", "7")
	t.Setenv("OTEL_BSP_EXPORT_TIMEOUT", "1s")
	if got, want := limitsFromEnv(), (limits{queue: 100, batch: 100, delay: 7 * time.Millisecond, timeout: 30 * time.Second}); got != want {
		t.Errorf("%+v", got)
	}
	if len(reported) != 2 {
		t.Error(reported)
	}
}
