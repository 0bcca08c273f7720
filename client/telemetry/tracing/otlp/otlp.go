// Package otlp sends the spans of package tracing to a collector, as the environment variables of
// OpenTelemetry say. It sends protobuf over HTTP and contains no gRPC, which would add 2 MB to a
// program.
//
//	OTEL_EXPORTER_OTLP_ENDPOINT     URL of the collector; /v1/traces is appended
//	OTEL_EXPORTER_OTLP_HEADERS      NAME=VALUE,… with values in percent encoding
//	OTEL_EXPORTER_OTLP_TIMEOUT      of one request, in ms; 10000 without it
//	OTEL_EXPORTER_OTLP_COMPRESSION  gzip or none
//	OTEL_EXPORTER_OTLP_PROTOCOL     http/protobuf, the only one
//	OTEL_EXPORTER_OTLP_CERTIFICATE  file of the CA of the collector
//	OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE, OTEL_EXPORTER_OTLP_CLIENT_KEY
//
// OTEL_EXPORTER_OTLP_TRACES_… comes before each of them; OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is
// the whole URL. OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG are read by Sampler, and
// OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_BSP_… and OTEL_SPAN_… by the SDK of OpenTelemetry. A
// program that uses Sender reads the last two itself.
package otlp

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"

	"osqueue/client/telemetry/tracing"
)

// FromEnv returns a tracer that exports by OTLP over HTTP, and the function that sends the rest
// and stops it. The tracer is nil, which does nothing, unless OTEL_TRACES_EXPORTER is otlp or
// OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is set, and if
// OTEL_SDK_DISABLED is true. A collector that hangs delays nothing but stop, until the context of
// that ends: spans above the size of the exporter's queue are dropped.
func FromEnv(ctx context.Context) (t *tracing.Tracer, stop func(context.Context) error, err error) {
	provider, err := Provider(ctx)
	if provider == nil || err != nil {
		return nil, func(context.Context) error { return nil }, err
	}
	return tracing.NewWithRoots(provider, Sampled()), provider.Shutdown, nil
}

// Provider returns the provider of FromEnv, or nil if the environment asks for no traces. The
// caller must call its Shutdown.
func Provider(ctx context.Context, opts ...sdktrace.TracerProviderOption) (*sdktrace.TracerProvider, error) {
	if !wanted() {
		return nil, nil
	}
	up, err := newUploader(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	exporter, err := otlptrace.New(ctx, up)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	return sdktrace.NewTracerProvider(append(opts, sdktrace.WithSampler(Sampler()), sdktrace.WithBatcher(exporter))...), nil
}

// Sender returns a function for a program that encodes its spans itself: it sends an
// ExportTraceServiceRequest in protobuf, and tries again as Provider does, until ctx ends. When it
// returns, the caller may change the request. It is nil if the environment asks for no traces.
func Sender() (send func(ctx context.Context, request []byte) error, err error) {
	if !wanted() {
		return nil, nil
	}
	up, err := newUploader(os.Getenv)
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	return up.upload, nil
}

// Service returns the resource of a program with this name and these attributes, for
// sdktrace.WithResource. OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES come before them.
func Service(name string, attrs ...attribute.KeyValue) *resource.Resource {
	own := resource.NewSchemaless(append(attrs, attribute.String("service.name", name))...)
	if all, err := resource.Merge(own, resource.Environment()); err == nil {
		own = all
	}
	return own
}

// OnError makes fn get the errors of all exporters of this process, at most one a minute.
func OnError(fn func(error)) { otel.SetErrorHandler(&reporter{fn: fn}) }

type reporter struct {
	fn   func(error)
	last atomic.Int64 // ms
}

// Handle implements otel.ErrorHandler.
func (r *reporter) Handle(err error) {
	last, now := r.last.Load(), time.Now().UnixMilli()
	if now-last >= time.Minute.Milliseconds() && r.last.CompareAndSwap(last, now) {
		r.fn(err)
	}
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
