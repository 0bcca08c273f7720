package v1

import (
	"slices"
	"strings"
)

// QueueName is how a type is named in the paths below PathQueues, where it must
// be escaped like every segment. "~" stands for the jobs without type; a type
// that begins with "~" gets one more in front.
func QueueName(jobType string) string {
	if jobType == "" || strings.HasPrefix(jobType, "~") {
		return "~" + jobType
	}
	return jobType
}

// QueueType reads what QueueName makes; ok is false for anything else.
func QueueType(name string) (jobType string, ok bool) {
	rest, marked := strings.CutPrefix(name, "~")
	if !marked {
		return name, name != ""
	}
	return rest, rest == "" || rest[0] == '~'
}

// Queue is a type of jobs: its figures and its settings. GET
// /v1/queues/{type}.
type Queue struct {
	Type string `json:"type"`
	TypeStats
	// OldestAt is when the oldest job that waits for a worker was created;
	// absent if none waits.
	OldestAt int64 `json:"oldestAt,omitzero"`
	// Pause describes the pause of a type that is paused.
	Pause    *Pause        `json:"pause,omitzero"`
	Settings QueueSettings `json:"settings"`
}

// LacksWorker reports whether a type has available jobs that none of the workers takes.
func (q *Queue) LacksWorker(workers []Worker) bool {
	return q.Unclaimed > 0 && q.InProgress == 0 &&
		!slices.ContainsFunc(workers, func(w Worker) bool { return w.Takes(q.Type) })
}

// Pause describes the pause of a type.
type Pause struct {
	Reason string `json:"reason,omitzero"`
	By     string `json:"by,omitzero"`    // the id of the token, or another identity; absent without access control
	Since  int64  `json:"since"`          // ms
	Until  int64  `json:"until,omitzero"` // ms, when the queue ends the pause; absent: it does not
}

// NewPause is the body of POST /v1/queues/{type}/pause, which may be empty.
type NewPause struct {
	Reason string `json:"reason,omitzero"` // at most 512 bytes
	// Until, or ForMs from now, is when the queue ends the pause by itself. Not both.
	Until int64 `json:"until,omitzero"`
	ForMs int64 `json:"forMs,omitzero"`
}

// QueueSettings are the settings of a type. In answers an absent member has its
// default. PATCH /v1/queues/{type} takes them too: an absent member stays as it
// is, null sets it back to its default.
type QueueSettings struct {
	Paused             bool     `json:"paused,omitzero"`
	MaxRunning         int64    `json:"maxRunning,omitzero"`         // jobs at once; absent: no limit
	MaxRunningPerGroup int64    `json:"maxRunningPerGroup,omitzero"` // of groups with a name
	RatePerSecond      float64  `json:"ratePerSecond,omitzero"`      // claims; 0.001 to 1000000
	Burst              int64    `json:"burst,omitzero"`              // claims at once; absent: 1
	LeaseMs            int64    `json:"leaseMs,omitzero"`
	TimeoutMs          int64    `json:"timeoutMs,omitzero"`
	MaxAttempts        *int64   `json:"maxAttempts,omitzero"`
	Backoff            *Backoff `json:"backoff,omitzero"`
	RetainMs           *int64   `json:"retainMs,omitzero"`    // of completed and cancelled jobs
	RetainCount        *int64   `json:"retainCount,omitzero"` // of completed and cancelled jobs
	MaxJobs            int64    `json:"maxJobs,omitzero"`     // that have not ended
	MaxBytes           int64    `json:"maxBytes,omitzero"`    // of payloads, results and logs
	MaxPayload         int64    `json:"maxPayload,omitzero"`  // bytes of one payload
}

// QueueList is the answer to GET /v1/queues, by type: those that have jobs or
// settings.
type QueueList struct {
	Queues     []Queue `json:"queues"`
	NextCursor string  `json:"nextCursor,omitzero"`
	LSN        string  `json:"lsn"`
}

// Done is the answer to a write that has nothing else to say.
type Done struct {
	LSN string `json:"lsn"`
}
