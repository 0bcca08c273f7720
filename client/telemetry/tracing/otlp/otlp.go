// Package otlp sends the spans of package tracing to a collector, as the environment variables of
// OpenTelemetry say.
package otlp

import (
	"context"
	"fmt"
	"os"

	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/client/telemetry/tracing"
)

// FromEnv returns a tracer that exports by OTLP over HTTP, and the function that sends the rest
// and stops it. The tracer is nil, which does nothing, unless OTEL_TRACES_EXPORTER is otlp or
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and if
// OTEL_SDK_DISABLED is true. The other variables of OpenTelemetry (OTEL_SERVICE_NAME,
// OTEL_TRACES_SAMPLER, OTEL_EXPORTER_OTLP_HEADERS, …) have their usual meanings. A collector that
// hangs delays nothing but stop, until the context of that ends: spans above the size of the
// exporter's queue are dropped.
func FromEnv(ctx context.Context) (t *tracing.Tracer, stop func(context.Context) error, err error) {
	if !wanted() {
		return nil, func(context.Context) error { return nil }, nil
	}
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter))
	return tracing.New(provider), provider.Shutdown, nil
}

// wanted reports whether the environment asks for traces.
func wanted() bool {
	if os.Getenv("OTEL_SDK_DISABLED") == "true" {
		return false
	}
	switch os.Getenv("OTEL_TRACES_EXPORTER") {
	case "otlp":
		return true
	case "":
		return os.Getenv("OTEL_EXPORTER_OTLP_ENDPOINT")+os.Getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT") != ""
	}
	return false // none, or an exporter that this package does not have
}
