package tracing

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

// Sampler returns the sampler that OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG name, as the SDK
// of OpenTelemetry reads them: parentbased_always_on without the first one. The SDK does not give out
// its own, and a program that asks it before it makes a span saves the spans that are not exported.
// A value that is not known, or that is no ratio, is reported to the handler of OnError.
func Sampler() sdktrace.Sampler {
	name := strings.ToLower(strings.TrimSpace(os.Getenv("OTEL_TRACES_SAMPLER")))
	root, parentBased := strings.CutPrefix(name, "parentbased_")
	var s sdktrace.Sampler
	switch root {
	case "always_on":
		s = sdktrace.AlwaysSample()
	case "always_off":
		s = sdktrace.NeverSample()
	case "traceidratio":
		s = sdktrace.TraceIDRatioBased(ratio(os.Getenv("OTEL_TRACES_SAMPLER_ARG")))
	default:
		if name != "" {
			otel.Handle(fmt.Errorf("OTEL_TRACES_SAMPLER %q: unknown sampler; all traces are exported", name))
		}
		s, parentBased = sdktrace.AlwaysSample(), true
	}
	if parentBased {
		return sdktrace.ParentBased(s)
	}
	return s
}

// Sampled returns a function that reports whether Sampler takes a trace whose root has no parent, for
// NewWithRoots of the SDK's package tracing.
func Sampled() func(trace.TraceID) bool {
	s := Sampler()
	return func(id trace.TraceID) bool {
		in := sdktrace.SamplingParameters{ParentContext: context.Background(), TraceID: id}
		return s.ShouldSample(in).Decision == sdktrace.RecordAndSample
	}
}

// ratio returns the share of the traces in text; "" and what is no share are 1.
func ratio(text string) float64 {
	if text == "" {
		return 1
	}
	r, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
	if err != nil || !(r >= 0 && r <= 1) {
		otel.Handle(fmt.Errorf("OTEL_TRACES_SAMPLER_ARG %q: must be a number from 0 to 1; all traces are exported", text))
		return 1
	}
	return r
}
