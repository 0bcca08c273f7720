package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/leader"
	"osqueue/fsm"
)

// kind has the common properties of all failures of one tag.
type kind struct {
	status  int
	tag     string
	title   string
	retry   time.Duration // when to try again; 0: a retry does not help
	unknown bool          // a write may have been committed
}

var (
	badRequest      = kind{status: http.StatusBadRequest, tag: v1.TagBadRequest, title: "The request is not valid"}
	unknownMember   = kind{status: http.StatusBadRequest, tag: v1.TagUnknownMember, title: "The request has unknown fields"}
	slowRequest     = kind{status: http.StatusRequestTimeout, tag: v1.TagTimeout, title: "The request did not arrive in time", retry: time.Second}
	tooLarge        = kind{status: http.StatusRequestEntityTooLarge, tag: v1.TagTooLarge, title: "The request is too large"}
	mediaType       = kind{status: http.StatusUnsupportedMediaType, tag: v1.TagMediaType, title: "The body has the wrong type"}
	upgradeRequired = kind{status: http.StatusUpgradeRequired, tag: v1.TagUpgrade, title: "This route needs an upgrade"}
	noRoute         = kind{status: http.StatusNotFound, tag: v1.TagNoRoute, title: "Not Found"}
	wrongMethod     = kind{status: http.StatusMethodNotAllowed, tag: v1.TagMethod, title: "Method Not Allowed"}
	noLeader        = kind{status: http.StatusServiceUnavailable, tag: v1.TagNoLeader, title: "There is no active leader", retry: time.Second}
	notLeader       = kind{status: http.StatusServiceUnavailable, tag: v1.TagNotLeader, title: "Not the leader", retry: 250 * time.Millisecond}
	unreachable     = kind{status: http.StatusServiceUnavailable, tag: v1.TagLeaderGone, title: "The leader did not answer", retry: time.Second}
	brokeOff        = kind{status: http.StatusServiceUnavailable, tag: v1.TagLeaderGone, title: "The leader did not answer", retry: time.Second, unknown: true}
	overConnections = kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "Too many connections are open", retry: time.Second}
	overBudget      = kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "The node has too many requests in memory", retry: time.Second}
	late            = kind{status: http.StatusGatewayTimeout, tag: v1.TagTimeout, title: "The request timed out", retry: time.Second}
	closing         = kind{status: http.StatusServiceUnavailable, tag: v1.TagClosing, title: "The node is shutting down", retry: time.Second}
	openOutcome     = kind{status: http.StatusServiceUnavailable, tag: v1.TagUnknownOutcome, title: "The outcome is not known", retry: time.Second, unknown: true}
	internal        = kind{status: http.StatusInternalServerError, tag: v1.TagInternal, title: "Internal error", unknown: true}
	// clientGone is for the metrics; no client reads the answer.
	clientGone = kind{status: 499, tag: "client_gone", title: "The client closed the connection"}
)

// table maps the refusals of the machine and the errors of the node to answers. If an entry has
// no detail, the text of the error is used. The first match counts.
var table = []struct {
	when   error
	kind   kind
	detail string
}{
	{when: fsm.NotFound.Err(), kind: kind{status: http.StatusNotFound, tag: v1.TagNotFound, title: "There is no such job"}},
	{when: fsm.NotRunning.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagNotRunning, title: "The job is not in progress"}},
	{when: fsm.WrongWorker.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagWrongWorker, title: "Another worker has the lease of the job"}},
	{when: fsm.StaleToken.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagStaleToken, title: "The lease is lost"}},
	{when: fsm.LeaseExpired.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagLeaseExpired, title: "The lease has expired"}},
	{when: fsm.IDTaken.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagIDTaken, title: "The id is taken"}},
	{when: fsm.NoID.Err(), kind: kind{status: http.StatusBadRequest, tag: v1.TagNoID, title: "The job has no id"}},
	{when: fsm.TimedOut.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagTimedOut, title: "The attempt ran too long"}},
	{when: fsm.WrongStatus.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagWrongStatus, title: "The job's status does not allow this"}},
	{when: fsm.UniqueTaken.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagUniqueTaken, title: "The unique key is taken"}},
	{when: fsm.NoSuchJob.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagNoSuchJob, title: "A job to wait for does not exist"}},
	{when: fsm.Cycle.Err(), kind: kind{status: http.StatusBadRequest, tag: v1.TagCycle, title: "The jobs would wait for each other"}},
	{when: fsm.TooManyWaiters.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagTooManyWaiters, title: "Too many jobs wait for one"}},
	{when: fsm.NoSuchBatch.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagNoSuchBatch, title: "There is no such open batch"}},
	{when: fsm.PayloadTooLarge.Err(), kind: kind{status: http.StatusRequestEntityTooLarge, tag: v1.TagPayloadTooLarge, title: "The payload is too large"}},
	{when: fsm.TooManyJobs.Err(), kind: kind{status: http.StatusTooManyRequests, tag: v1.TagTooManyJobs, title: "The queue is full", retry: time.Second}},
	{when: fsm.TooManyBytes.Err(), kind: kind{status: http.StatusInsufficientStorage, tag: v1.TagTooManyBytes, title: "The queue is full"}},
	{when: fsm.TooManyQueues.Err(), kind: kind{status: http.StatusInsufficientStorage, tag: v1.TagTooManyQueues, title: "Too many types have settings"}},
	{when: fsm.TooManyCrons.Err(), kind: kind{status: http.StatusInsufficientStorage, tag: v1.TagTooManyCrons, title: "There are too many schedules"}},
	{when: fsm.TooManyTokens.Err(), kind: kind{status: http.StatusInsufficientStorage, tag: v1.TagTooManyTokens, title: "There are too many tokens"}},
	{when: fsm.TooManyHooks.Err(), kind: kind{status: http.StatusInsufficientStorage, tag: v1.TagTooManyHooks, title: "There are too many hooks"}},
	{when: fsm.TokenExpired.Err(), kind: kind{status: http.StatusBadRequest, tag: v1.TagTokenExpired, title: "The token would have expired"}},
	{when: fsm.TooManyTokenJobs.Err(), kind: kind{status: http.StatusTooManyRequests, tag: v1.TagTooManyTokenJobs, title: "The quota of the token is used up", retry: time.Second}},
	{when: fsm.TooManyTokenBytes.Err(), kind: kind{status: http.StatusTooManyRequests, tag: v1.TagTooManyTokenBytes, title: "The quota of the token is used up", retry: time.Second}},
	{when: cluster.ErrLevel, kind: kind{status: http.StatusConflict, tag: v1.TagLevel, title: "Not all nodes know the feature level"}},
	{when: fsm.NotDue.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagNotDue, title: "The schedule is not due"}},
	{when: fsm.RequestConflict.Err(), kind: kind{status: http.StatusConflict, tag: v1.TagRequestConflict, title: "The idempotency key was used"}},
	{when: cluster.ErrUnknown, kind: openOutcome}, // before the others: it may wrap them
	{when: cluster.ErrNotLeader, kind: notLeader},
	{when: cluster.ErrOverloaded, kind: kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "Too many writes are waiting", retry: time.Second}},
	{when: cluster.ErrTooLarge, kind: tooLarge},
	{when: cluster.ErrFlushLag, kind: kind{status: http.StatusServiceUnavailable, tag: v1.TagFlushLag, title: "The bucket is too far behind", retry: 2 * time.Second}},
	{when: cluster.ErrArchive, kind: kind{status: http.StatusServiceUnavailable, tag: v1.TagArchive, title: "The archive is damaged", retry: 2 * time.Second}},
	{when: cluster.ErrClosed, kind: closing},
	// This comes after ErrUnknown, which wraps it if the write had begun.
	{when: context.DeadlineExceeded, kind: late, detail: "the request timed out before the node began it; repeat it"},
}

// failure is an error with its answer.
type failure struct {
	kind
	detail  string
	leader  string
	index   *int       // of the item to blame
	members []string   // of the request that are to blame
	reached *positions // of a wait for an LSN
	lag     *leader.FlushLagError
	cause   error // for the log
}

func (f *failure) Error() string { return f.detail }
func (f *failure) Unwrap() error { return f.cause }

// fail makes a failure with a detail for the caller.
func fail(k kind, format string, args ...any) *failure {
	return &failure{kind: k, detail: fmt.Sprintf(format, args...)}
}

// failureOf returns the answer to err.
func failureOf(err error) *failure {
	var f *failure
	if errors.As(err, &f) {
		return f
	}
	for _, row := range table {
		if errors.Is(err, row.when) {
			return withLag(&failure{kind: row.kind, detail: cmp.Or(row.detail, row.when.Error()), cause: err})
		}
	}
	return &failure{kind: internal, detail: "the node failed to answer; its log says why", cause: err}
}

// withLag adds the lag of the bucket to a request that was refused because of it.
func withLag(f *failure) *failure {
	if e := (*leader.ArchiveError)(nil); errors.As(f.cause, &e) {
		f.detail = e.Error()
	}
	if e := (*leader.RivalError)(nil); errors.As(f.cause, &e) {
		f.detail = e.Error()
	}
	if f.tag == v1.TagFlushLag && errors.As(f.cause, &f.lag) {
		f.detail = f.lag.Error()
	}
	return f
}

// blame adds the index of the refused item of a batch.
func blame(err error, index int) error {
	if err == nil {
		return nil
	}
	f := within(err, fmt.Sprintf("jobs[%d]", index))
	f.index = &index
	return f
}

// within prefixes the fields that err names with another field.
func within(err error, member string) *failure {
	f := *failureOf(err)
	f.detail = member + ": " + f.detail
	f.members = slices.Clone(f.members)
	for i, m := range f.members {
		f.members[i] = pointer(member) + m
	}
	return &f
}

// problem returns the body of the failure; write says whether the request would
// have changed anything.
func (f *failure) problem(write bool) v1.Problem {
	p := v1.Problem{
		Type:         v1.ProblemTypePrefix + f.tag,
		Title:        f.title,
		Status:       f.status,
		Detail:       f.detail,
		Tag:          f.tag,
		Message:      f.detail,
		RetryAfterMs: f.retry.Milliseconds(),
		Leader:       f.leader,
		Index:        f.index,
		Members:      f.members,
	}
	if f.reached != nil {
		p.AppliedLSN, p.FlushedLSN = f.reached.applied.String(), f.reached.flushed.String()
	}
	if f.lag != nil {
		p.LagMs, p.MaxFlushLagMs, p.Reason = f.lag.Lag.Milliseconds(), f.lag.Max.Milliseconds(), f.lag.Cause
	}
	if write {
		p.Committed = v1.CommittedNo
		if f.unknown {
			p.Committed = v1.CommittedUnknown
		}
	}
	if f.tag == v1.TagNoRoute {
		p.Error, p.StatusCode = f.title, f.status
	}
	return p
}

// fail makes the failure the answer; write tells whether the request would have changed anything.
func (c *call) fail(f *failure, write bool) {
	body, err := marshal(f.problem(write))
	if err != nil {
		body = []byte(`{"_tag":"` + v1.TagInternal + `"}`)
	}
	c.status, c.fault, c.out, c.ready = f.status, f, body, true
}
