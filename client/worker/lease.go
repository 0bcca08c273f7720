package worker

import (
	"container/list"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

// defaultLease is the server's default, used for an answer without a lease length.
const defaultLease = 30 * time.Second

// shortLease is the length below which a renewal may be too late without a fault.
const shortLease = time.Second

// errShortLease is the reason for which a job with such a short lease fails its
// attempt. Without it the job would be claimed and released without end.
var errShortLease = fmt.Errorf("%w, because it is too short", ErrLeaseUnsure)

// phase is the state of a claimed job; doc.go has the diagram.
type phase uint8

const (
	running  phase = iota
	settling       // a goroutine has the right to report the outcome
	lost           // the cluster has revoked the lease
	reported       // the loss has been reported, or is about to be
)

// lease is a job that this worker has claimed.
type lease struct {
	job      Job
	length   time.Duration // of the lease
	began    time.Time     // when it was claimed
	took     time.Duration // the handler; set by the goroutine that ran it
	ctx      context.Context
	cancel   context.CancelCauseFunc
	unsure   *time.Timer // ends ctx when the lease has not been renewed in time
	late     *time.Timer // ends ctx when the attempt has run for too long; nil: it may
	reporter *progressReporter
	ended    func(*lease) // called, once at least, after ctx has ended with a cause

	element *list.Element // in the list of waiting jobs, while it waits; guarded by the capacity

	mu    sync.Mutex
	phase phase
	over  bool      // the cluster renews the lease no more
	asked time.Time // when the last renewal that was answered was sent
}

func newLease(ctx context.Context, job client.ClaimedJob, ended func(*lease)) *lease {
	claimed := time.Now().Add(-job.Age)
	h := &lease{length: job.Length, began: claimed, asked: claimed, reporter: &progressReporter{}, ended: ended}
	h.job = Job{ClaimedJob: job, reporter: h.reporter}
	if h.length <= 0 {
		h.length = defaultLease
	}
	h.ctx, h.cancel = context.WithCancelCause(ctx)
	why := ErrLeaseUnsure
	if h.length < shortLease {
		why = fmt.Errorf("%w: %v", errShortLease, h.length)
	}
	h.unsure = time.AfterFunc(h.length-job.Age, func() { h.interrupt(why) })
	if job.Timeout > 0 {
		h.late = time.AfterFunc(job.Timeout-job.Age, func() { h.interrupt(ErrTimeout) })
	}
	return h
}

// interrupt ends the context, with the cause.
func (h *lease) interrupt(cause error) {
	h.cancel(cause)
	h.ended(h)
}

// end frees the resources of the lease. The answer to a renewal in flight has no effect any
// more.
func (h *lease) end() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.unsure.Stop()
	if h.late != nil {
		h.late.Stop()
	}
	h.cancel(nil)
}

// settle acquires the right to report the outcome. Only the first call gets it, and none if the
// job is lost.
func (h *lease) settle() bool { return h.move(running, settling) }

// move enters a phase, if the job is in the one before it.
func (h *lease) move(from, to phase) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.phase != from {
		return false
	}
	h.phase = to
	return true
}

// lose records that the cluster no longer extends the lease, and why. If the handler runs, the
// job is lost. While the outcome is being reported, the answer to the report decides: the
// cluster may have ended the lease because the report took effect.
func (h *lease) lose(why error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.over = true
	if h.phase == running {
		h.phase = lost
		h.interrupt(why)
	}
}

// cancelled records that a client requested the cancellation of the job. The lease is extended
// until the attempt ends.
func (h *lease) cancelled() { h.interrupt(ErrCancelled) }

// answered records the answer to a renewal that was sent at sent. An answer to an older renewal
// than the last answered one has no effect.
func (h *lease) answered(sent time.Time, renewed bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if sent.Before(h.asked) {
		return
	}
	h.asked = sent
	if renewed && !h.over {
		h.unsure.Reset(time.Until(sent.Add(h.length)))
	}
}

// due returns the time at which the lease should be extended. ok is false if it cannot be
// extended.
func (h *lease) due() (at time.Time, ok bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked.Add(h.length / 3), !h.over
}

// markLost acquires the right to report the loss of the job. Only the first call gets it.
func (h *lease) markLost() bool { return h.move(lost, reported) }

// claimKey names a claim of a job.
type claimKey struct {
	job   string
	token uint64
}

func (h *lease) key() claimKey { return claimKey{h.job.ID, h.job.Token} }

// leases are the jobs with a lease of this worker.
type leases struct {
	mu   sync.Mutex
	jobs map[claimKey]*lease
	none chan struct{} // closed while there are none
	plan time.Time     // when idle returns; zero: it must be woken
	wake chan struct{} // has a token when that is too late for a new job
}

func newLeases() *leases {
	hs := &leases{
		jobs: make(map[claimKey]*lease),
		none: make(chan struct{}),
		wake: make(chan struct{}, 1),
	}
	close(hs.none)
	return hs
}

// add reports whether the claim is new; if it is known already, add ends h.
func (hs *leases) add(h *lease) bool {
	hs.mu.Lock()
	if hs.jobs[h.key()] != nil {
		hs.mu.Unlock()
		h.end()
		return false
	}
	if len(hs.jobs) == 0 {
		hs.none = make(chan struct{})
	}
	hs.jobs[h.key()] = h
	due, _ := h.due()
	late := hs.plan.IsZero() || due.Before(hs.plan)
	hs.mu.Unlock()
	if late {
		sleep.Wake(hs.wake)
	}
	return true
}

// remove reports whether the job was there.
func (hs *leases) remove(h *lease) bool {
	h.end()
	hs.mu.Lock()
	defer hs.mu.Unlock()
	if hs.jobs[h.key()] != h {
		return false
	}
	delete(hs.jobs, h.key())
	if len(hs.jobs) == 0 {
		close(hs.none)
	}
	return true
}

// empty returns a channel that is closed when no job is held.
func (hs *leases) empty() <-chan struct{} {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return hs.none
}

func (hs *leases) all() []*lease {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	return slices.Collect(maps.Values(hs.jobs))
}

// renewable returns the jobs with a lease that a heartbeat should extend, the time when the
// first of these is due, and the shortest lease among them.
func (hs *leases) renewable() (list []*lease, due time.Time, shortest time.Duration) {
	for _, h := range hs.all() {
		at, ok := h.due()
		if !ok {
			continue
		}
		if len(list) == 0 || at.Before(due) {
			due = at
		}
		if len(list) == 0 || h.length < shortest {
			shortest = h.length
		}
		list = append(list, h)
	}
	return list, due, shortest
}

// idle waits until the time then (zero: without a limit), until a job with an
// earlier renewal is added, or until ctx ends.
func (hs *leases) idle(ctx context.Context, then time.Time) {
	hs.setPlan(then)
	defer hs.setPlan(time.Time{}) // a job added from now on must wake the next idle
	var over <-chan time.Time
	if !then.IsZero() {
		over = time.After(time.Until(then))
	}
	select {
	case <-hs.wake:
	case <-over:
	case <-ctx.Done():
	}
}

func (hs *leases) setPlan(then time.Time) {
	hs.mu.Lock()
	defer hs.mu.Unlock()
	hs.plan = then
}

// renewals returns the claims of leases, in their order, with the progress to send. It includes as
// many, from the first on, as fit in one call, and at least one.
func renewals(list []*lease) []client.Lease {
	out := make([]client.Lease, 0, min(len(list), batchJobs))
	bytes := 0
	for _, h := range list[:cap(out)] {
		l := h.job.Lease()
		l.Progress = h.reporter.take()
		if bytes += leaseBytes(l); bytes > batchBytes && len(out) > 0 {
			h.reporter.restore(l.Progress)
			break
		}
		out = append(out, l)
	}
	return out
}

// leaseBytes returns the approximate size of a lease in a request, with its escapes.
func leaseBytes(l client.Lease) int {
	n := reportBytes + quotedBytes(l.JobID)
	if l.Progress != nil {
		n += quotedBytes(l.Progress.Message)
	}
	return n
}

func quotedBytes(text string) int {
	quoted, _ := jsontext.AppendQuote(nil, text) // its error is only that it is not UTF-8
	return len(quoted)
}

// restoreProgress restores the progress of leases that were not sent.
func restoreProgress(list []*lease, leases []client.Lease) {
	for i, h := range list {
		if p := leases[i].Progress; p != nil {
			h.reporter.restore(p)
		}
	}
}
