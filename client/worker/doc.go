// Package worker runs the jobs of an osqueue cluster: it claims as many as it
// has free slots, runs their handlers, keeps their leases alive and reports
// exactly one outcome for each.
//
// # Use
//
//	w, err := worker.New(c, worker.Config{Concurrency: 8}) // c is a *client.Client
//	if err != nil {
//		return err
//	}
//	w.Handle("wc", worker.JSON(func(ctx context.Context, job worker.Job, text string) (int, error) {
//		if text == "" {
//			return 0, worker.Permanent(errors.New("nothing to count"))
//		}
//		return len(strings.Fields(text)), nil
//	}))
//	return w.Run(ctx)
//
// # States of a job held here
//
//	waiting ─── the context ends: never started ──┐
//	  │ a slot is free                             │
//	  ▼      handler returns                       ▼
//	running ────────────────▶ settling ─── accepted ──▶ done
//	  │  │                       ▲  │
//	  │  │ lease not renewed     │  └── refused: lease lost ──▶ lost
//	  │  │ in time, or stopping: │
//	  │  └─ handler's ctx ends ──┘
//	  │
//	  │ the cluster says: not yours any more
//	  └──────────────────────────────────────▶ lost (handler's ctx ends)
//
// The handler's context ends with the reason as its cause: ErrLeaseLost,
// ErrLeaseUnsure, ErrCancelled, ErrTimeout or ErrStopping.
//
// The handler's goroutine settles its job. If a handler ignores that its
// context has ended while the worker stops, Run settles in its place; who comes
// first has the right, so there are never two reports.
//
// # Claiming ahead
//
// The worker has Config.Concurrency slots, and a capacity of Config.Prefetch jobs in addition.
// A job uses a slot while its handler runs, and a part of the capacity from its claim until its
// report was answered. So with prefetch handlers do not wait for round trips: the next jobs are
// local already, and the last ones are being reported. Without prefetch a slot is used again
// only after the report.
//
// Jobs wait in order, and the worker extends their leases. If a waiting job is lost, cancelled
// or out of time, or its lease is unsure, it is settled at once and never starts. A waiting job
// cannot run on another worker. So use prefetch for jobs that are short compared with their
// lease and their timeout, which begins with the claim.
//
// A claim asks for the whole free capacity. While every slot is in use, the worker delays a
// claim until half of the prefetch is free, because many small claims would cost more than they
// gain.
//
// # Concurrency per type
//
// Config.PerType bounds how many jobs of a type run at once. A claim names only types with free
// capacity, and asks for no more jobs than the smallest free capacity among them, so that all
// claimed jobs fit. If a type gets free capacity while a claim waits at the cluster, a second
// claim asks for this type, and ends together with the first. If a small limit made a claim
// small, another claim without such types follows. Two alternatives were rejected: cancelling
// the waiting claim, because it may just have been granted, and claiming more jobs than may run
// and releasing them, because other workers could run them.
//
// # Reports
//
// If no other report is in flight, a report is sent at once. Reports that arrive while one is
// in flight are sent together in the next call: up to 1000 jobs and half of the server's
// request size. Completions, failures and releases are separate calls. Each job has its own
// answer. If the cluster refuses a whole call, the worker sends its halves separately, down to
// the job that caused the refusal. A call with completions also claims as many jobs as it
// frees capacity for, unless a claim is under way already: with jobs in the queue, each slot
// then needs one call per job instead of two. A call whose outcome is unknown is repeated; the fencing tokens make this
// harmless.
//
// # Middleware
//
// Worker.Use wraps all handlers in functions, the first one outermost: Use(a, b) is
// a(b(handler)). They run in the handler's slot, and their panics count as the handler's.
//
// # The fencing token
//
// Job.Token grows with every claim of any job. A handler that changes another system passes the
// token on, and that system refuses a token that is smaller than one it has seen. So an attempt
// whose lease has ended unnoticed, for example because the process was stopped for a while,
// cannot undo a later attempt.
//
// # Leases
//
// A third of the shortest lease after the last renewal, one heartbeat call extends the leases
// of all jobs. While the cluster is unreachable the local clock decides: when a full lease has
// passed since the last renewal was sent, the handler's context ends with ErrLeaseUnsure. Its
// outcome is reported nevertheless. The fencing token lets the cluster decide whether the
// outcome still counts. It often does, because a new leader restarts every lease at its full
// length.
//
// If the handler then returns an error, the job is released; but if the lease was shorter than
// a second, the attempt fails. Such a lease may never be renewed in time, and the job would be
// claimed and released without end.
//
// A repeated claim whose first answer was lost returns the leases that were granted first. The
// answer states their age, and they count from there.
//
// A report is repeated, over failovers, until it is accepted or refused, and the lease is
// extended meanwhile. If the cluster cannot store a result, the job fails permanently, with the
// reason. If there is a log, the worker first tries again without the log.
//
// # Cancellation, timeouts, progress
//
// The answer to a heartbeat says that a client has requested a job's cancellation. The
// handler's context then ends, and the lease is still extended. The handler's error is reported
// as a failure, "cancelled", which makes the job cancelled. If the handler finishes without an
// error, the job completes. So a cancellation takes up to a third of a lease to arrive.
//
// The context of a job with a timeout is ended by the local clock and by the cluster's answers.
// Both count from the claim, so they differ only by the latency of the answer. The cluster's
// decision is final.
//
// Job.Progress leaves a note that the next heartbeat sends, so that a busy loop costs the
// cluster nothing. Job.ProgressNow sends it at once; its answer also reports a cancellation.
//
// Job.Log adds to the log of the attempt. The report carries the log: in addition to the
// result, or after the error.
//
// While a reader follows a job, the worker also sends what its attempt writes: one goroutine asks
// the cluster with a long poll, as long as a running attempt has written anything, and then sends
// new bytes at most five times a second. Before the report of a followed job it sends the rest.
//
// # Stopping
//
// When Run's context ends, the worker claims and starts no more jobs. It first releases the
// waiting jobs. A claim in flight may have been granted although its answer is lost: the worker
// repeats it once under its request id, and releases the jobs that it returns. Meanwhile
// handlers have Config.StopTimeout to finish. After that the worker ends the contexts of the
// running handlers and releases their jobs.
//
// # Failure stance
//
// If a handler panics, or calls runtime.Goexit, its attempt fails with the stack. While the
// cluster is unreachable the worker retries without end. If the cluster refuses a claim, Run
// returns, because repeating it would not help; so does Run if the client was closed. If two
// answers report the same claim, the job runs once.
package worker
