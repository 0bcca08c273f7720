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
// A job has a slot, of Config.Concurrency, while its handler runs, and a place,
// of these and Config.Prefetch more, from its claim until its report was
// answered. So with prefetch handlers do not wait for round trips: the next jobs
// are here already, and the last ones are being reported. Without it a slot is
// used again only after the report.
//
// What waits is in order, and its leases are renewed. A job that is lost,
// cancelled or out of time meanwhile, or whose lease is unsure, is settled at once
// and never starts. What waits here cannot run elsewhere, so prefetch is for jobs
// that are short beside their lease and their timeout, which runs from the claim.
//
// A claim asks for all free places. While every slot is in use it is put off until
// half of the prefetch is free: many small claims would cost more than they bring.
//
// # Concurrency per type
//
// Config.PerType bounds how many jobs of a type run at once. A claim names only
// types with room, and asks for no more than the least room among them, so that
// whatever it brings fits. A type that gets room while a claim waits at the
// cluster is asked for by a second claim that ends together with the first. A
// claim that a small limit has made small is followed by one without such types.
// Rejected: cancelling the waiting claim, because it may just have been granted;
// claiming more than may run and giving it back, because others could run it.
//
// # Reports
//
// A report that finds no other under way is sent at once; those that come while
// it is go together with the next: up to 1000 jobs and half of the server's
// request. Completions, failures and releases are calls of their own. Each job
// has its own answer. If the cluster refuses a whole call, its halves are sent on
// their own, down to the one that is at fault. A call whose outcome is unknown is
// repeated; the fencing tokens make that harmless.
//
// # Middleware
//
// Worker.Use puts functions around all handlers, the first one outermost:
// Use(a, b) is a(b(handler)). They run in the handler's slot, their panics are the
// handler's.
//
// # The fencing token
//
// Job.Token grows with every claim of any job. A handler that changes things
// elsewhere hands it on, and the other side refuses a token that is smaller than
// one it has seen: so an attempt whose lease has ended without its knowing, as
// that of a process that was stopped for a while, cannot undo a later one.
//
// # Leases
//
// A third of the shortest lease after the last renewal, one heartbeat call
// renews all jobs held. While the cluster is out of reach the local clock
// decides: when a full lease has passed since the last renewal was sent, the
// handler's context ends with ErrLeaseUnsure. Its outcome is reported all the
// same. The fencing token lets the cluster decide whether it still counts: a
// new leader gives every lease its full length again, so it often does.
//
// A handler that returns an error then has its job given back; but if the lease was
// shorter than a second its attempt fails. It may never be renewed in time, and
// the job would be claimed and given back for ever.
//
// A claim whose answer was lost gets, when it is repeated, the leases that were
// granted first. The answer tells their age, and they count from there.
//
// A report is repeated, over failovers, until it is accepted or refused, and
// the lease renewed meanwhile. A result that the cluster cannot store fails the
// job for good, with the reason; if there is a log, it is left out first.
//
// # Cancellation, timeouts, progress
//
// The answer to a heartbeat says when somebody has asked for a job's
// cancellation. The handler's context ends then, the lease goes on being
// renewed, and the handler's error is reported as a failure, "cancelled", which
// makes the job cancelled. A handler that finishes nevertheless completes it.
// So cancellation takes up to a third of a lease to arrive.
//
// A job with a timeout has its context ended by the local clock as well as by
// the cluster's word. Both count from the claim, so they mean the same moment
// but for the way of the answer; the cluster's decision stands.
//
// Job.Progress leaves a note that the next heartbeat takes along, so that a busy
// loop costs the cluster nothing; Job.ProgressNow sends it at once, and learns of
// a cancellation by the way.
//
// Job.Log adds to the log of the attempt, which its report takes along: beside the
// result, or behind the error.
//
// # Stopping
//
// When Run's context ends, nothing more is claimed or started. What waits is given
// back first. A claim in flight may have been granted without our knowing: it is
// asked for once more under its request id, and what it holds is given back.
// Meanwhile Config.StopTimeout passes, which handlers have to finish; what still
// runs then has its context ended, and is given back.
//
// # Failure stance
//
// A handler that panics, or calls runtime.Goexit, fails its attempt with the
// stack. A cluster out of reach is waited for, for ever. A claim that the
// cluster refuses ends Run: repeating it would not help. So does a client that was
// closed. A claim that is told of twice is held once.
package worker
