package core

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

// Kind has the common properties of all failures of one tag.
type Kind struct {
	Status  int
	Tag     string
	Title   string
	Retry   time.Duration // when to try again; 0: a retry does not help
	Unknown bool          // a write may have been committed
}

var (
	BadRequest      = Kind{Status: http.StatusBadRequest, Tag: v1.TagBadRequest, Title: "The request is not valid"}
	unknownMember   = Kind{Status: http.StatusBadRequest, Tag: v1.TagUnknownMember, Title: "The request has unknown fields"}
	slowRequest     = Kind{Status: http.StatusRequestTimeout, Tag: v1.TagTimeout, Title: "The request did not arrive in time", Retry: time.Second}
	tooLarge        = Kind{Status: http.StatusRequestEntityTooLarge, Tag: v1.TagTooLarge, Title: "The request is too large"}
	MediaType       = Kind{Status: http.StatusUnsupportedMediaType, Tag: v1.TagMediaType, Title: "The body has the wrong type"}
	UpgradeRequired = Kind{Status: http.StatusUpgradeRequired, Tag: v1.TagUpgrade, Title: "This route needs an upgrade"}
	NoRoute         = Kind{Status: http.StatusNotFound, Tag: v1.TagNoRoute, Title: "Not Found"}
	WrongMethod     = Kind{Status: http.StatusMethodNotAllowed, Tag: v1.TagMethod, Title: "Method Not Allowed"}
	NoLeader        = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagNoLeader, Title: "There is no active leader", Retry: time.Second}
	NotLeader       = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagNotLeader, Title: "Not the leader", Retry: 250 * time.Millisecond}
	Unreachable     = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagLeaderGone, Title: "The leader did not answer", Retry: time.Second}
	BrokeOff        = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagLeaderGone, Title: "The leader did not answer", Retry: time.Second, Unknown: true}
	OverConnections = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "Too many connections are open", Retry: time.Second}
	OverBudget      = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The node has too many requests in memory", Retry: time.Second}
	Late            = Kind{Status: http.StatusGatewayTimeout, Tag: v1.TagTimeout, Title: "The request timed out", Retry: time.Second}
	Closing         = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagClosing, Title: "The node is shutting down", Retry: time.Second}
	noSuchArtefact  = Kind{Status: http.StatusConflict, Tag: v1.TagNoSuchArtefact, Title: "There is no such artefact"}
	noBucket        = Kind{Status: http.StatusBadGateway, Tag: v1.TagBucket, Title: "The bucket did not answer", Retry: time.Second}
	openOutcome     = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagUnknownOutcome, Title: "The outcome is not known", Retry: time.Second, Unknown: true}
	internal        = Kind{Status: http.StatusInternalServerError, Tag: v1.TagInternal, Title: "Internal error", Unknown: true}
	// clientGone is for the metrics; no client reads the answer.
	clientGone = Kind{Status: 499, Tag: v1.TagClientGone, Title: "The client closed the connection"}
)

// table maps the refusals of the machine and the errors of the node to answers. If an entry has
// no detail, the text of the error is used. The first match counts.
var table = []struct {
	when   error
	kind   Kind
	detail string
}{
	{when: fsm.NotFound.Err(), kind: Kind{Status: http.StatusNotFound, Tag: v1.TagNotFound, Title: "There is no such job"}},
	{when: fsm.NotRunning.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagNotRunning, Title: "The job is not in progress"}},
	{when: fsm.WrongWorker.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagWrongWorker, Title: "Another worker has the lease of the job"}},
	{when: fsm.StaleToken.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagStaleToken, Title: "The lease is lost"}},
	{when: fsm.LeaseExpired.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagLeaseExpired, Title: "The lease has expired"}},
	{when: fsm.IDTaken.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagIDTaken, Title: "The id is taken"}},
	{when: fsm.NoID.Err(), kind: Kind{Status: http.StatusBadRequest, Tag: v1.TagNoID, Title: "The job has no id"}},
	{when: fsm.TimedOut.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagTimedOut, Title: "The attempt ran too long"}},
	{when: fsm.WrongStatus.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagWrongStatus, Title: "The job's status does not allow this"}},
	{when: fsm.UniqueTaken.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagUniqueTaken, Title: "The unique key is taken"}},
	{when: fsm.NoSuchJob.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagNoSuchJob, Title: "A job to wait for does not exist"}},
	{when: fsm.Cycle.Err(), kind: Kind{Status: http.StatusBadRequest, Tag: v1.TagCycle, Title: "The jobs would wait for each other"}},
	{when: fsm.TooManyWaiters.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagTooManyWaiters, Title: "Too many jobs wait for one"}},
	{when: fsm.NoSuchBatch.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagNoSuchBatch, Title: "There is no such open batch"}},
	{when: fsm.PayloadTooLarge.Err(), kind: Kind{Status: http.StatusRequestEntityTooLarge, Tag: v1.TagPayloadTooLarge, Title: "The payload is too large"}},
	{when: fsm.TooManyJobs.Err(), kind: Kind{Status: http.StatusTooManyRequests, Tag: v1.TagTooManyJobs, Title: "The queue is full", Retry: time.Second}},
	{when: fsm.TooManyBytes.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyBytes, Title: "The queue is full"}},
	{when: fsm.TooManyWaiting.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagTooManyWaiting, Title: "Too many jobs wait in the type"}},
	{when: fsm.TooManySteps.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagTooManySteps, Title: "The job keeps too much"}},
	{when: fsm.NoSuchArtefact.Err(), kind: noSuchArtefact},
	{when: fsm.TooManyLimits.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyLimits, Title: "Too many limits have rules"}},
	{when: fsm.TooManyQueues.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyQueues, Title: "Too many types have settings"}},
	{when: fsm.TooManyCrons.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyCrons, Title: "There are too many schedules"}},
	{when: fsm.TooManyTokens.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyTokens, Title: "There are too many tokens"}},
	{when: fsm.TooManyHooks.Err(), kind: Kind{Status: http.StatusInsufficientStorage, Tag: v1.TagTooManyHooks, Title: "There are too many hooks"}},
	{when: fsm.TokenExpired.Err(), kind: Kind{Status: http.StatusBadRequest, Tag: v1.TagTokenExpired, Title: "The token would have expired"}},
	{when: fsm.TooManyTokenJobs.Err(), kind: Kind{Status: http.StatusTooManyRequests, Tag: v1.TagTooManyTokenJobs, Title: "The quota of the token is used up", Retry: time.Second}},
	{when: fsm.TooManyTokenBytes.Err(), kind: Kind{Status: http.StatusTooManyRequests, Tag: v1.TagTooManyTokenBytes, Title: "The quota of the token is used up", Retry: time.Second}},
	{when: cluster.ErrLevel, kind: Kind{Status: http.StatusConflict, Tag: v1.TagLevel, Title: "Not all nodes know the feature level"}},
	{when: fsm.NotDue.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagNotDue, Title: "The schedule is not due"}},
	{when: fsm.RequestConflict.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagRequestConflict, Title: "The idempotency key was used"}},
	{when: fsm.Revised.Err(), kind: Kind{Status: http.StatusConflict, Tag: v1.TagRevised, Title: "The job was edited since"}},
	{when: cluster.ErrUnknown, kind: openOutcome}, // before the others: it may wrap them
	{when: cluster.ErrNotLeader, kind: NotLeader},
	{when: cluster.ErrOverloaded, kind: Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "Too many writes are waiting", Retry: time.Second}},
	{when: cluster.ErrTooLarge, kind: tooLarge},
	{when: cluster.ErrFlushLag, kind: Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagFlushLag, Title: "The bucket is too far behind", Retry: 2 * time.Second}},
	{when: cluster.ErrArchive, kind: Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagArchive, Title: "The archive is damaged", Retry: 2 * time.Second}},
	{when: cluster.ErrClosed, kind: Closing},
	// This comes after ErrUnknown, which wraps it if the write had begun.
	{when: context.DeadlineExceeded, kind: Late, detail: "the request timed out before the node began it; repeat it"},
}

// Failure is an error with its answer.
type Failure struct {
	Kind
	Detail  string
	Leader  string
	Index   *int       // of the item to blame
	Members []string   // of the request that are to blame
	Reached *positions // of a wait for an LSN
	lag     *leader.FlushLagError
	Cause   error // for the log
}

func (f *Failure) Error() string { return f.Detail }
func (f *Failure) Unwrap() error { return f.Cause }

// Fail makes a failure with a detail for the caller.
func Fail(k Kind, format string, args ...any) *Failure {
	return &Failure{Kind: k, Detail: fmt.Sprintf(format, args...)}
}

// FailureOf returns the answer to err.
func FailureOf(err error) *Failure {
	if f, ok := errors.AsType[*Failure](err); ok {
		return f
	}
	for _, row := range table {
		if errors.Is(err, row.when) {
			return withLag(&Failure{Kind: row.kind, Detail: cmp.Or(row.detail, row.when.Error()), Cause: err})
		}
	}
	return &Failure{Kind: internal, Detail: "the node failed to answer; its log says why", Cause: err}
}

// withLag adds the lag of the bucket to a request that was refused because of it.
func withLag(f *Failure) *Failure {
	if e := (*leader.ArchiveError)(nil); errors.As(f.Cause, &e) {
		f.Detail = e.Error()
	}
	if e := (*leader.RivalError)(nil); errors.As(f.Cause, &e) {
		f.Detail = e.Error()
	}
	if f.Tag == v1.TagFlushLag && errors.As(f.Cause, &f.lag) {
		f.Detail = f.lag.Error()
	}
	return f
}

// Blame adds the index of the refused item of a batch.
func Blame(err error, index int) error {
	if err == nil {
		return nil
	}
	f := Within(err, fmt.Sprintf("jobs[%d]", index))
	f.Index = &index
	return f
}

// Within prefixes the fields that err names with another field.
func Within(err error, member string) *Failure {
	f := *FailureOf(err)
	f.Detail = member + ": " + f.Detail
	f.Members = slices.Clone(f.Members)
	for i, m := range f.Members {
		f.Members[i] = pointer(member) + m
	}
	return &f
}

// Problem returns the body of the failure; write says whether the request would
// have changed anything.
func (f *Failure) Problem(write bool) v1.Problem {
	p := v1.Problem{
		Type:         v1.ProblemTypePrefix + f.Tag,
		Title:        f.Title,
		Status:       f.Status,
		Detail:       f.Detail,
		Tag:          f.Tag,
		Message:      f.Detail,
		RetryAfterMs: f.Retry.Milliseconds(),
		Leader:       f.Leader,
		Index:        f.Index,
		Members:      f.Members,
	}
	if f.Reached != nil {
		p.AppliedLSN, p.FlushedLSN = f.Reached.Applied.String(), f.Reached.Flushed.String()
	}
	if f.lag != nil {
		p.LagMs, p.MaxFlushLagMs, p.Reason = f.lag.Lag.Milliseconds(), f.lag.Max.Milliseconds(), f.lag.Cause
	}
	if write {
		p.Committed = v1.CommittedNo
		if f.Unknown {
			p.Committed = v1.CommittedUnknown
		}
	}
	if f.Tag == v1.TagNoRoute {
		p.Error, p.StatusCode = f.Title, f.Status
	}
	return p
}

// NotThere returns the refusal of a name that does not exist.
func NotThere(what, detail string) error {
	k := FailureOf(fsm.NotFound.Err()).Kind
	k.Title = "There is no such " + what
	return Fail(k, "%s", detail)
}

var Overtaken = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The schedule fires too often", Retry: time.Second}

var ErrNoCron = NotThere("schedule", "the schedule does not exist")
