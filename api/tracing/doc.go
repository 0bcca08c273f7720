// Package tracing makes the spans of a node by the SDK of OpenTelemetry. Without a Tracer a request costs
// one comparison more.
//
// The leader makes a span of kind server for each job that a committed write concerns:
//
//	enqueue TYPE                    from the request to the commit
//	├── claim TYPE                  attempt 1; the request may have waited for the job
//	│   └── complete, fail, release the report on the attempt
//	└── claim TYPE                  attempt 2, linked to the claim of the attempt before
//	    └── complete, fail, release
//	flush                           a trace of its own, linked to the writes that it made durable
//
// The root of a job's spans is the span that the header traceparent of the job names. It is
// usually the enqueue of the producer. A job without the header has a trace whose ids are a
// function of the id of the job.
//
// Nothing is remembered between the spans of a job: the id of a claim's span is a function of
// the id of the job and of the time of the claim. So a later leader continues a trace, and finds
// the attempt before. A repeated request whose answer is the first one has no spans.
//
// A job of a schedule or of the inbox has no span for its enqueue, and an attempt that ends
// because its lease expires has none for its report.
//
// Nodes and `osqueue worker` export their spans to a collector (Exporter, Sampler) as the environment
// variables of OpenTelemetry say, as protobuf over HTTP.
package tracing
