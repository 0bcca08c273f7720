package fsm

// Code is the decision of the machine on a mutation, or on one item of it.
type Code uint8

// The decisions. Except for OK and Duplicate, the job is unchanged.
const (
	OK           Code = iota
	Duplicate         // the same request took effect before: the answer is the same
	NotFound          // no such job or worker
	NotRunning        // the job is not in progress
	WrongWorker       // another worker holds the job
	StaleToken        // the job was claimed again since: the lease is lost
	LeaseExpired      // the lease expired and the job returned to the queue
	IDTaken           // the id belongs to a job with other content
	OldEpoch          // a broker with a newer epoch is registered
	NoID              // the job has no id

	TimedOut        // the attempt ran longer than its timeout and was ended
	WrongStatus     // the operation does not apply to the status of the job
	UniqueTaken     // another job holds the unique key
	NoSuchJob       // a job to wait for does not exist
	Cycle           // jobs would wait for each other
	TooManyWaiters  // too many jobs wait for one
	NoSuchBatch     // the batch does not exist or has ended
	PayloadTooLarge // over the quota of one payload
	TooManyJobs     // over the quota of jobs
	TooManyBytes    // over the quota of bytes
	TooManyQueues   // too many types have settings
	TooManyCrons    // too many schedules
	NotDue          // the schedule has fired, or was changed
	RequestConflict // the request key was used for another request

	TooManyTokens // the state has TokensMax tokens
	TokenExpired  // the token would have expired already

	TooManyTokenJobs  // over the producer's quota of jobs
	TooManyTokenBytes // over the producer's quota of bytes
	TooManyHooks      // too many hooks or alerts, or too large outboxes

	numCodes = iota
)

var codeNames = [...]string{
	"ok", "duplicate", "not_found", "not_running", "wrong_worker", "stale_token",
	"lease_expired", "id_taken", "old_epoch", "no_id",
	"timed_out", "wrong_status", "unique_taken", "no_such_job", "cycle", "too_many_waiters", "no_such_batch",
	"payload_too_large", "too_many_jobs", "too_many_bytes", "too_many_queues", "too_many_crons", "not_due",
	"request_conflict", "too_many_tokens", "token_expired",
	"too_many_token_jobs", "too_many_token_bytes", "too_many_hooks",
}

var codeTexts = [...]string{
	"", "",
	"no such job; it may have been removed after its retention time",
	"the job is not in progress",
	"another worker has the lease of the job",
	"the job was claimed again since; stop working on it",
	"the lease expired and the job returned to the queue; send heartbeats more often or ask for a longer lease",
	"the id belongs to another job; use a fresh id",
	"a broker with a newer epoch has taken over",
	"the job has no id; give it one",
	"the attempt ran longer than its timeout and was ended; stop working on it",
	"the job's status does not allow this",
	"another job has the unique key",
	"a job named in after does not exist; it may have been removed after its retention time",
	"jobs would wait for each other; break the cycle in after",
	"too many jobs wait for one job; use a batch with a callback",
	"no such batch, or it has ended",
	"the payload is larger than the quota allows",
	"the queue is full: too many jobs have not ended; try again when some have",
	"the queue is full: its payloads, results and logs take up too many bytes; delete jobs or raise the quota",
	"too many types have settings; remove some",
	"too many schedules; delete some",
	"the schedule is not due",
	"the idempotency key was used for another request; use a fresh key",
	"too many tokens; revoke some",
	"the token would have expired already; choose a later expiry",
	"too many jobs of this token have not ended (its quota maxJobs); try again when some have",
	"this token's jobs that have not ended, batches, schedules and workers take up too many bytes (its quota maxBytes); try again when some jobs have ended",
	"too many hooks, or their buffers are too large together; delete hooks or choose smaller buffers",
}

// String returns the code's name as used on the wire.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "unknown"
}

// Done reports whether the mutation took effect, now or at an earlier request.
func (c Code) Done() bool { return c == OK || c == Duplicate }

// Err returns nil if Done, else an *Error.
func (c Code) Err() error {
	if c.Done() {
		return nil
	}
	return &Error{Code: c}
}

// Error is the error for a mutation that the machine refused.
type Error struct{ Code Code }

// Error returns the reason, and what to do about it.
func (e *Error) Error() string {
	if int(e.Code) < len(codeTexts) {
		return codeTexts[e.Code]
	}
	return "refused"
}

// Is makes errors.Is match on the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
