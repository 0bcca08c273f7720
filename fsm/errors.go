package fsm

// Code says how the machine decided on a mutation, or on one item of it.
type Code uint8

// The decisions. Everything but OK and Duplicate left the job as it was.
const (
	OK           Code = iota
	Duplicate         // had been done before by the same request: the answer is the same
	NotFound          // no such job or worker
	NotRunning        // the job is not in progress
	WrongWorker       // another worker holds the job
	StaleToken        // the job was claimed again since: the lease is lost
	LeaseExpired      // the lease ran out and the job went back
	IDTaken           // the id belongs to a job with other content
	OldEpoch          // a broker with a newer epoch is registered
	NoID              // a job without an id cannot be named, so cannot exist
)

var codeNames = [...]string{
	"ok", "duplicate", "not_found", "not_running", "wrong_worker", "stale_token",
	"lease_expired", "id_taken", "old_epoch", "no_id",
}

var codeTexts = [...]string{
	"", "",
	"no such job; it may have been removed after its retention time",
	"the job is not in progress",
	"another worker holds the job",
	"the job was claimed again since; stop working on it",
	"the lease ran out and the job went back to the queue; send heartbeats more often or ask for a longer lease",
	"the id belongs to another job; use a fresh id",
	"a broker with a newer epoch has taken over",
	"the job has no id; give it one",
}

// String returns the code's name as used on the wire.
func (c Code) String() string {
	if int(c) < len(codeNames) {
		return codeNames[c]
	}
	return "unknown"
}

// Done reports whether the mutation took effect, now or before.
func (c Code) Done() bool { return c == OK || c == Duplicate }

// Err returns nil if Done, else an *Error.
func (c Code) Err() error {
	if c.Done() {
		return nil
	}
	return &Error{Code: c}
}

// Error is a refusal by the machine.
type Error struct{ Code Code }

// Error says why, and what to do about it.
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
