package history

import (
	"time"

	"osqueue/fsm"
)

// Time is a time since the start of the run, or a duration, in nanoseconds.
type Time int64

// Never is the return time of an operation that has not returned.
const Never = Time(1<<63 - 1)

// Millisecond is the unit of the machine's clock.
const Millisecond = Time(time.Millisecond)

// Seconds returns t in seconds, for people.
func (t Time) Seconds() float64 { return time.Duration(t).Seconds() }

// LSN is a position in the log, as term-index. The zero value means none.
type LSN struct{ fsm.LSN }

// MarshalText implements encoding.TextMarshaler.
func (l LSN) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (l *LSN) UnmarshalText(text []byte) error {
	parsed, err := fsm.ParseLSN(string(text))
	if err != nil {
		return err
	}
	l.LSN = parsed
	return nil
}

// ParseLSN reads the LSN of an answer; "" is the zero LSN.
func ParseLSN(text string) (LSN, error) {
	if text == "" {
		return LSN{}, nil
	}
	var l LSN
	return l, l.UnmarshalText([]byte(text))
}

// History is a whole record.
type History struct {
	Run       Run
	Ops       []Op
	Faults    []Fault
	Applied   []Applied
	Documents []Document
	States    []State
	Finals    []Final
}

// Run describes the run.
type Run struct {
	Name    string    `json:"name,omitzero"` // of the test
	Seed    uint64    `json:"seed"`
	Nodes   int       `json:"nodes"`
	Store   string    `json:"store,omitzero"` // the kind of bucket
	Lease   Time      `json:"lease,omitzero"` // that workers ask for
	Start   time.Time `json:"start"`
	Version string    `json:"version,omitzero"` // of the program under test
}

// Outcome is a client's knowledge of an operation.
type Outcome string

// The outcomes.
const (
	OK      Outcome = "ok"
	Refused Outcome = "refused" // nothing happened, for certain
	Unknown Outcome = "unknown"
)

// Kind is the kind of a request.
type Kind string

// The kinds of operations. Log entries that clients cause have the same kinds.
const (
	Enqueue   Kind = "enqueue"
	Claim     Kind = "claim"
	Heartbeat Kind = "heartbeat"
	Complete  Kind = "complete"
	Fail      Kind = "fail"
	Release   Kind = "release" // also a suspension
	Cancel    Kind = "cancel"
	Edit      Kind = "edit"
	SetLimit  Kind = "set-limit" // the rule of a pattern
	Throttle  Kind = "throttle"  // hold a key: for a job of a worker, or without one
	Step      Kind = "step"      // store a value of a job that runs
	Signal    Kind = "signal"    // send a job a value
	Attach    Kind = "attach"    // give a job that runs an artefact
	Open      Kind = "open"      // read an artefact
	Schedule  Kind = "schedule"  // put a schedule, or delete it
	SetType   Kind = "set-type"  // the ageing of a type
	GetJob    Kind = "read"      // of one job
	Stats     Kind = "stats"
)

// Op is one call of a client with all its repetitions.
type Op struct {
	ID      int     `json:"id"` // from 1, in the order of calls
	Client  string  `json:"client"`
	Kind    Kind    `json:"kind"`
	Call    Time    `json:"call"`
	Return  Time    `json:"return"` // also of an unknown outcome: when the client gave up
	Outcome Outcome `json:"outcome"`
	Error   string  `json:"error,omitzero"`
	Tag     string  `json:"tag,omitzero"` // the server's name for the refusal

	Request   string `json:"request,omitzero"`   // the idempotency key
	Ack       string `json:"ack,omitzero"`       // the level that was asked for
	Committed string `json:"committed,omitzero"` // the level that was reached
	LSN       LSN    `json:"lsn,omitzero"`       // of the answer
	// Protocol of a successful write is ProtocolStream if all attempts went over streams, and
	// ProtocolHTTP if one did not.
	Protocol string `json:"protocol,omitzero"`

	// Of enqueue.
	Type        string `json:"type,omitzero"`
	Priority    int32  `json:"priority,omitzero"`
	Delay       Time   `json:"delay,omitzero"`       // also of a release and of an edit, for how long a key is held, and of ageing
	Before      Time   `json:"before,omitzero"`      // it expires that long after the call, unless it has started
	Backoff     Time   `json:"backoff,omitzero"`     // the least delay after a failed attempt
	MaxAttempts int    `json:"maxAttempts,omitzero"` // 0: the server's default
	Payload     string `json:"payload,omitzero"`     // also of an edit
	Limits      string `json:"limits,omitzero"`      // keys, as in Item; of an edit: the new ones, if there are any
	Sequence    string `json:"sequence,omitzero"`

	// Of edits: the revision that was asked for, and that of the answer.
	IfRevision *uint64 `json:"ifRevision,omitzero"`
	Revision   uint64  `json:"revision,omitzero"`

	// Of limits: the pattern, or the key that is held, and the rule; nil takes it away.
	Limit string `json:"limit,omitzero"`
	Rule  *Rule  `json:"rule,omitzero"`

	// Of steps, signals and artefacts: the name, the value that was sent or read, and of a step the one that the answer has. Of
	// schedules: the name, and the spec; "" deletes it.
	Name  string `json:"name,omitzero"`
	Value string `json:"value,omitzero"`
	Kept  string `json:"kept,omitzero"`

	// Of claim: the request and the returned jobs.
	Worker string   `json:"worker,omitzero"` // also of reports
	Types  []string `json:"types,omitzero"`
	Max    int      `json:"max,omitzero"`
	Lease  Time     `json:"lease,omitzero"`
	Jobs   []Held   `json:"jobs,omitzero"`

	// Of operations about one job. In a read, Status, Token, Attempts and Result are those in
	// the answer; in a cancellation, Status is the resulting one.
	Job      string `json:"job,omitzero"`
	Token    uint64 `json:"token,omitzero"`
	Status   string `json:"status,omitzero"`
	Attempts int    `json:"attempts,omitzero"`
	Result   string `json:"result,omitzero"`
	// Stopping: the cancelled job runs, and ends as cancelled unless its worker completes it
	// first. In a heartbeat: the answer said so to the worker.
	Stopping bool `json:"stopping,omitzero"`
	// Permanent: the failed job has no further attempt.
	Permanent bool `json:"permanent,omitzero"`

	// Of reads: the lowest LSN that the answer may have, and the node that was asked, if it was
	// a particular one.
	MinLSN LSN    `json:"minLsn,omitzero"`
	Node   string `json:"node,omitzero"`
}

// The values of Op.Protocol.
const (
	ProtocolHTTP   = "http"
	ProtocolStream = "stream"
)

// Rule is the rule of a limit; 0 is no limit.
type Rule struct {
	Running   int64 `json:"running,omitzero"`   // jobs at once
	RateMilli int64 `json:"rateMilli,omitzero"` // starts in 1000 s
	Burst     int64 `json:"burst,omitzero"`     // 0 counts as 1
}

// Held is a job that a claim returned.
type Held struct {
	Job      string `json:"job"`
	Token    uint64 `json:"token"`
	Attempt  int    `json:"attempt"` // from 1
	Type     string `json:"type,omitzero"`
	Priority int32  `json:"priority,omitzero"`
	Lease    Time   `json:"lease,omitzero"`
	Payload  string `json:"payload,omitzero"`
	Confirm  bool   `json:"confirm,omitzero"` // a last attempt that counts from its first heartbeat

	Steps   map[string]string `json:"steps,omitzero"`   // values by name
	Signals []string          `json:"signals,omitzero"` // values, the oldest first

	Scheduled
}

// Scheduled is the schedule of a job, and the time for which it was enqueued, ms; zero if there is none.
type Scheduled struct {
	Schedule string `json:"schedule,omitzero"`
	At       int64  `json:"at,omitzero"`
}

// Fault is a fault of the cluster or of a client.
type Fault struct {
	Name   string `json:"name"`
	Target string `json:"target,omitzero"`
	Begin  Time   `json:"begin"`
	End    Time   `json:"end"`
	Hit    bool   `json:"hit"`            // there was a sign that it took effect
	Proof  string `json:"proof,omitzero"` // the sign
	// Loses: data that was not in the bucket may be lost after it.
	Loses bool `json:"loses,omitzero"`
}

// WorkerDead is the name of the fault in which a worker (the target) stops permanently while it
// holds leases.
const WorkerDead = "worker-dead"

// Applied is one mutation of a node's log, or an effect of time in an entry.
type Applied struct {
	Node    string `json:"node"`
	LSN     LSN    `json:"lsn"`
	Now     int64  `json:"now"` // the machine's clock, ms
	Kind    Kind   `json:"kind"`
	Request string `json:"request,omitzero"` // the idempotency key
	Worker  string `json:"worker,omitzero"`
	Code    string `json:"code"` // "ok", "duplicate", or why not
	Jobs    []Item `json:"jobs,omitzero"`
	Epoch   uint64 `json:"epoch,omitzero"` // of a broker

	// Of limits, as in Op. Until is the end of a hold, or of a suspension, by the machine's clock, ms.
	Limit string `json:"limit,omitzero"`
	Rule  *Rule  `json:"rule,omitzero"`
	Until int64  `json:"until,omitzero"`
	// Of schedules: the name; of a put the spec, "" of a deletion, and whether all missed times fire; of a fire the time that was due,
	// the one that it is for, by the machine's clock, ms, and the number of times before that one that it missed.
	Schedule string `json:"schedule,omitzero"`
	Spec     string `json:"spec,omitzero"`
	All      bool   `json:"all,omitzero"`
	Due      int64  `json:"due,omitzero"`
	At       int64  `json:"at,omitzero"`
	Missed   uint64 `json:"missed,omitzero"`
	// Aging is the ageing of types, ms, as far as it was set; of a snapshot that of all types.
	Aging map[string]int64 `json:"aging,omitzero"`
	// Limits are the rules and buckets of a snapshot.
	Limits []LimitState `json:"limits,omitzero"`
}

// LimitState is the record of a pattern or key in a snapshot.
type LimitState struct {
	Name  string `json:"name"`
	Rule  *Rule  `json:"rule,omitzero"`
	Level int64  `json:"level,omitzero"` // of its bucket, in millionths of a permit, at the time At, ms; 0 and 0: it is full
	At    int64  `json:"at,omitzero"`
	Until int64  `json:"until,omitzero"` // it is held
}

// The kinds of Applied that no client requested.
const (
	Passed   Kind = "time"     // leases ran out, schedules fell due
	Broker   Kind = "broker"   // a leader became active
	Snapshot Kind = "snapshot" // the log begins with a state; its jobs are all that are in it
	Fire     Kind = "fire"     // a schedule was due
	Other    Kind = "other"    // a mutation that this package has no name for
)

// Item is one job of an Applied, in its state after it.
type Item struct {
	Job      string `json:"job"`
	Code     string `json:"code,omitzero"` // of this one, where they differ
	Status   string `json:"status,omitzero"`
	From     string `json:"from,omitzero"` // of what time brought about: the status before
	Token    uint64 `json:"token,omitzero"`
	Attempts int    `json:"attempts,omitzero"`
	Confirm  bool   `json:"confirm,omitzero"` // as in Held
	Type     string `json:"type,omitzero"`
	Priority int32  `json:"priority,omitzero"`
	Lease    Time   `json:"lease,omitzero"` // of a job that runs
	End      string `json:"end,omitzero"`   // how the last attempt ended
	Result   string `json:"result,omitzero"`

	Limits   string `json:"limits,omitzero"` // keys, sorted, with commas between them
	Sequence string `json:"sequence,omitzero"`
	Seq      uint64 `json:"seq,omitzero"`    // the job's place in the order of acceptance, if it is in a sequence
	Before   int64  `json:"before,omitzero"` // when it expires unless it has started, by the machine's clock, ms
	Since    int64  `json:"since,omitzero"`  // of a job that is available: since when it counts as waiting, likewise
	Scheduled
}

// Document is a version of the document that the bucket has accepted.
type Document struct {
	Version int    `json:"version"` // from 1, in the order of acceptance
	At      Time   `json:"at,omitzero"`
	LSN     LSN    `json:"lsn"`
	Epoch   uint64 `json:"epoch"`
	Node    string `json:"node"`
	Cluster string `json:"cluster,omitzero"`
	Lineage string `json:"lineage,omitzero"`
	Hash    string `json:"hash"`              // of the state that it has
	Replay  string `json:"replayed,omitzero"` // of the machine at that LSN; "": no log has it
}

// State is the hash of a node's state at an LSN.
type State struct {
	Node   string `json:"node"`
	Source string `json:"source,omitzero"` // "log" (replayed) or "snapshot" (its file)
	LSN    LSN    `json:"lsn"`
	Hash   string `json:"hash"`
}

// Final is a job in the cluster at the end, when all faults are healed.
type Final struct {
	Job      string `json:"job"`
	Status   string `json:"status"`
	Type     string `json:"type,omitzero"`
	Payload  string `json:"payload,omitzero"`
	Result   string `json:"result,omitzero"`
	Token    uint64 `json:"token,omitzero"`
	Attempts int    `json:"attempts,omitzero"`
	Scheduled
}
