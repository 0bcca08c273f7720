// Package tracing follows jobs from the enqueue to their end with OpenTelemetry. It is in a
// module of its own, so that a program without it does not depend on OpenTelemetry.
//
//	t := tracing.New(provider)                    // the TracerProvider of the program
//	t.Enqueue(ctx, c, job)                        // in the producer
//	w, err := worker.New(t.Queue(c), cfg)         // in the worker
//	w.Use(t.Middleware)
//
// A job is one trace, whatever the number of its attempts:
//
//	enqueue TYPE                    the producer's call; its context is in the job's headers
//	├── claim TYPE                  attempt 1: the worker's call, which may wait for the job
//	│   └── run TYPE                the handler
//	│       └── report TYPE         the call that reports the outcome to the cluster
//	└── claim TYPE                  attempt 2
//	    └── run TYPE                linked to the run before, if this process did that, too
//	        └── report TYPE
//
// The headers are those of the W3C (traceparent, tracestate). A job without them has the trace that
// the nodes derive from its id (RootOf), whose root is their span of the enqueue. A Tracer of New does
// not know how these are sampled: there, each claim of such a job begins a trace. A job that waits for others, and a job of a schedule, has the trace of the call
// that enqueued it, if there was one.
//
// # Off
//
// A nil *Tracer is valid: its methods do nothing, allocate nothing, and return what they are
// given. New(nil) is nil.
//
// # Bounds
//
// The contexts of claims and runs are kept until the report. If a worker never reports (a lost
// lease), they are dropped after up to 20 000 later ones.
package tracing
