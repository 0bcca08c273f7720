package worker

import (
	"context"
	"encoding/json"

	"osqueue/client"
)

// An Attempt is the outcome of one run of a handler, as a worker reports it.
type Attempt struct {
	Outcome Outcome
	Result  json.RawMessage // if Outcome is Completed
	Log     string          // of a completed attempt; a failure quotes the log in its text
	Failure client.Failure  // if Outcome is Failed, Cancelled or TimedOut
	Err     error           // the handler's error
}

// Try runs fn once without a cluster, for tests of handlers, and returns the report that
// a worker would send. A panic of fn is a failure. If ctx ends with one of the causes of
// this package (ErrCancelled, ErrTimeout, …), the outcome is that of the cause.
func Try(ctx context.Context, fn HandlerFunc, job client.ClaimedJob) Attempt {
	running := Job{ClaimedJob: job, log: new(attemptLog)}
	result, err := call(ctx, fn, running)
	rep := decide(context.Cause(ctx), result, err).with(running.log.text())
	return Attempt{Outcome: rep.outcome, Result: rep.result, Log: rep.log, Failure: rep.failure, Err: rep.err}
}
