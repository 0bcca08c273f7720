package tracing

import (
	"errors"
	"testing"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// The sampler is that of the SDK for each value of the environment. Values that are not known are reported.
func TestSampler(t *testing.T) {
	half := sdktrace.TraceIDRatioBased(0.5)
	for _, row := range []struct {
		name, arg string
		want      sdktrace.Sampler
		reported  bool
	}{
		{"", "0.5", sdktrace.ParentBased(sdktrace.AlwaysSample()), false},
		{"always_on", "", sdktrace.AlwaysSample(), false},
		{"always_off", "", sdktrace.NeverSample(), false},
		{"traceidratio", "0.5", half, false},
		{"traceidratio", "", sdktrace.TraceIDRatioBased(1), false},
		{" Traceidratio ", " 0.5 ", half, false},
		{"parentbased_always_on", "", sdktrace.ParentBased(sdktrace.AlwaysSample()), false},
		{"parentbased_always_off", "", sdktrace.ParentBased(sdktrace.NeverSample()), false},
		{"parentbased_traceidratio", "0.5", sdktrace.ParentBased(half), false},
		{"parentbased_traceidratio", "2", sdktrace.ParentBased(sdktrace.TraceIDRatioBased(1)), true},
		{"traceidratio", "NaN", sdktrace.TraceIDRatioBased(1), true},
		{"traceidratio", "-1", sdktrace.TraceIDRatioBased(1), true},
		{"parentbased_jaeger_remote", "", sdktrace.ParentBased(sdktrace.AlwaysSample()), true},
		{"always", "", sdktrace.ParentBased(sdktrace.AlwaysSample()), true},
	} {
		t.Setenv("OTEL_TRACES_SAMPLER", row.name)
		t.Setenv("OTEL_TRACES_SAMPLER_ARG", row.arg)
		errs := []error{}
		OnError(func(err error) { errs = append(errs, err) })
		if got := Sampler().Description(); got != row.want.Description() || len(errs) > 0 != row.reported {
			t.Errorf("%q %q: %s, want %s; reported %v", row.name, row.arg, got, row.want.Description(), errors.Join(errs...))
		}
	}
}

// Without the environment there is no exporter, and none for a protocol that is not spoken.
func TestExporter(t *testing.T) {
	for _, name := range []string{"OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"} {
		t.Setenv(name, "")
	}
	if e, err := Exporter(); e != nil || err != nil {
		t.Error(e, err)
	}
	t.Setenv("OTEL_TRACES_EXPORTER", "otlp")
	if e, err := Exporter(); e == nil || err != nil {
		t.Error(e, err)
	}
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
	if e, err := Exporter(); e != nil || err == nil {
		t.Error(e, err)
	}
	t.Setenv("OTEL_SDK_DISABLED", "true")
	if e, err := Exporter(); e != nil || err != nil {
		t.Error(e, err)
	}
}
