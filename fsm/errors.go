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
	Revised         // the job has another revision
	Replaced        // a waiting job with the unique key has got the fields of the new one
	TooManyLimits   // too many patterns have rules
	TooManyWaiting  // too many jobs wait in the type
	TooManySteps    // too many or too large steps, signals, links or artefacts of a job
	NoSuchArtefact  // an artefact is not reserved

	TooManyTokens // the state has TokensMax tokens
	TokenExpired  // the token would have expired already

	TooManyTokenJobs  // over the producer's quota of jobs
	TooManyTokenBytes // over the producer's quota of bytes
	TooManyHooks      // too many hooks or alerts, or too large outboxes

	numCodes = iota
)

// codes has, for each code, its name on the wire, and what Error says.
var codes = [numCodes]struct{ name, text string }{
	OK:                {"ok", ""},
	Duplicate:         {"duplicate", ""},
	NotFound:          {"not_found", "no such job; it may have been removed after its retention time"},
	NotRunning:        {"not_running", "the job is not in progress"},
	WrongWorker:       {"wrong_worker", "another worker has the lease of the job"},
	StaleToken:        {"stale_token", "the job was claimed again since; stop working on it"},
	LeaseExpired:      {"lease_expired", "the lease expired and the job returned to the queue; send heartbeats more often or ask for a longer lease"},
	IDTaken:           {"id_taken", "the id belongs to another job; use a fresh id"},
	OldEpoch:          {"old_epoch", "a broker with a newer epoch has taken over"},
	NoID:              {"no_id", "the job has no id; give it one"},
	TimedOut:          {"timed_out", "the attempt ran longer than its timeout and was ended; stop working on it"},
	WrongStatus:       {"wrong_status", "the job's status does not allow this"},
	UniqueTaken:       {"unique_taken", "another job has the unique key"},
	NoSuchJob:         {"no_such_job", "a job named in after does not exist; it may have been removed after its retention time"},
	Cycle:             {"cycle", "jobs would wait for each other; break the cycle in after"},
	TooManyWaiters:    {"too_many_waiters", "too many jobs wait for one job; use a batch with a callback"},
	NoSuchBatch:       {"no_such_batch", "no such batch, or it has ended"},
	PayloadTooLarge:   {"payload_too_large", "the payload is larger than the quota allows"},
	TooManyJobs:       {"too_many_jobs", "the queue is full: too many jobs have not ended; try again when some have"},
	TooManyBytes:      {"too_many_bytes", "the queue is full: its payloads, results and logs take up too many bytes; delete jobs or raise the quota"},
	TooManyQueues:     {"too_many_queues", "too many types have settings; remove some"},
	TooManyCrons:      {"too_many_crons", "too many schedules; delete some"},
	NotDue:            {"not_due", "the schedule is not due"},
	RequestConflict:   {"request_conflict", "the idempotency key was used for another request; use a fresh key"},
	Revised:           {"revised", "the job was edited since; read it, and edit it with its new revision"},
	Replaced:          {"replaced", ""},
	TooManyLimits:     {"too_many_limits", "too many patterns have rules; remove some"},
	TooManyWaiting:    {"too_many_waiting", "too many jobs wait in the type to sort them by another ageing; change it when fewer wait"},
	TooManySteps:      {"too_many_steps", "the job has too many steps, signals, links or artefacts, or they are too large together"},
	NoSuchArtefact:    {"no_such_artefact", "an artefact does not exist, has a job already, or its reservation has ended; upload the file again"},
	TooManyTokens:     {"too_many_tokens", "too many tokens; revoke some"},
	TokenExpired:      {"token_expired", "the token would have expired already; choose a later expiry"},
	TooManyTokenJobs:  {"too_many_token_jobs", "too many jobs of this token have not ended (its quota maxJobs); try again when some have"},
	TooManyTokenBytes: {"too_many_token_bytes", "this token's jobs that have not ended, batches, schedules and workers take up too many bytes (its quota maxBytes); try again when some jobs have ended"},
	TooManyHooks:      {"too_many_hooks", "too many hooks, or their buffers are too large together; delete hooks or choose smaller buffers"},
}

// String returns the code's name as used on the wire.
func (c Code) String() string {
	if c < numCodes {
		return codes[c].name
	}
	return "unknown"
}

// Done reports whether the mutation took effect, now or at an earlier request.
func (c Code) Done() bool { return c == OK || c == Duplicate || c == Replaced }

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
	if e.Code < numCodes {
		return codes[e.Code].text
	}
	return "refused"
}

// Is makes errors.Is match on the code.
func (e *Error) Is(target error) bool {
	t, ok := target.(*Error)
	return ok && t.Code == e.Code
}
