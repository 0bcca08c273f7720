package tracing

import (
	"context"
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// Exporter returns what sends spans to the collector, or nil if the environment asks for no traces: unless
// OTEL_TRACES_EXPORTER is otlp or OTEL_EXPORTER_OTLP_ENDPOINT or OTEL_EXPORTER_OTLP_TRACES_ENDPOINT
// is set, and if OTEL_SDK_DISABLED is true. The provider that uses it must be shut down.
func Exporter() (sdktrace.SpanExporter, error) {
	if !wanted() {
		return nil, nil
	}
	for _, name := range []string{"OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
		if v := os.Getenv(name); v != "" && v != "http/protobuf" {
			return nil, fmt.Errorf("export traces: %s is %q: use http/protobuf, the only protocol that is supported", name, v)
		}
	}
	e, err := otlptracehttp.New(context.Background())
	if err != nil {
		return nil, fmt.Errorf("export traces: %w", err)
	}
	return e, nil
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
