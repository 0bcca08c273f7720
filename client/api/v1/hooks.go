package v1

// NewHook is the body of PUT /v1/hooks/{name}. A hook that exists is replaced; it keeps its
// secret unless the body says otherwise.
type NewHook struct {
	// URL receives the events by POST. It begins with https://, or with http:// if HTTP is set.
	URL string `json:"url"`
	// On are kinds of events, or globs of them, such as job.dead or queue.*.
	On []string `json:"on"`
	// Types are globs of the types of jobs; without any the hook gets the events of all.
	Types []string `json:"types,omitzero"`
	// Secret is the key of the signatures, whsec_ and Base64. Without one the leader makes one
	// for a new hook.
	Secret string `json:"secret,omitzero"`
	// RotateSecret makes a new secret. The old one signs as well for a day.
	RotateSecret bool `json:"rotateSecret,omitzero"`
	// HTTP allows a URL without TLS.
	HTTP bool `json:"http,omitzero"`
	// Paused keeps events in the outbox.
	Paused bool `json:"paused,omitzero"`

	OldestAgeMs    int64 `json:"oldestAgeMs,omitzero"`    // queue.stuck: age of the oldest available job (default 10 minutes)
	FailurePercent int64 `json:"failurePercent,omitzero"` // queue.failing: of the attempts of 5 minutes (default 50)
	DeadGrew       int64 `json:"deadGrew,omitzero"`       // queue.dead: jobs that became dead in 10 minutes (default 10)
	LagMs          int64 `json:"lagMs,omitzero"`          // bucket.lag: age of the oldest change that is not in the bucket (default 1 minute)

	BufferBytes int64 `json:"bufferBytes,omitzero"` // size of the outbox (default 2 MiB)
	RetryForMs  int64 `json:"retryForMs,omitzero"`  // age at which an event is given up (default 1 day)
}

// HookPut is the answer to PUT /v1/hooks/{name}.
type HookPut struct {
	// Secret is the key of the signatures, if this request made one. No other answer has it.
	Secret string `json:"secret,omitzero"`
	// Warning says why no event can reach the URL now, such as an address that is not allowed.
	Warning string `json:"warning,omitzero"`
	LSN     string `json:"lsn"`
}

// Hook is a hook, without its secret.
type Hook struct {
	Name           string   `json:"name"`
	URL            string   `json:"url"`
	On             []string `json:"on"` // names of the kinds, without globs
	Types          []string `json:"types,omitzero"`
	HTTP           bool     `json:"http,omitzero"`
	Paused         bool     `json:"paused,omitzero"`
	OldestAgeMs    int64    `json:"oldestAgeMs"`
	FailurePercent int64    `json:"failurePercent"`
	DeadGrew       int64    `json:"deadGrew"`
	LagMs          int64    `json:"lagMs"`
	BufferBytes    int64    `json:"bufferBytes"`
	RetryForMs     int64    `json:"retryForMs"`
	SealedWith     string   `json:"sealedWith,omitzero"` // id of the key that seals the secret; empty: the state has it in clear
	OldSecretUntil int64    `json:"oldSecretUntil,omitzero"`
	MadeBy         string   `json:"madeBy,omitzero"`
	CreatedAt      int64    `json:"createdAt"`
	UpdatedAt      int64    `json:"updatedAt"`

	Pending      int     `json:"pending"`      // events in the outbox
	PendingBytes int64   `json:"pendingBytes"` // size of the outbox
	OldestAt     int64   `json:"oldestAt,omitzero"`
	Delivered    uint64  `json:"delivered"`
	Failed       uint64  `json:"failed"`  // given up
	Dropped      uint64  `json:"dropped"` // the outbox had no room
	DeliveredAt  int64   `json:"deliveredAt,omitzero"`
	FailingSince int64   `json:"failingSince,omitzero"`
	LastError    string  `json:"lastError,omitzero"`
	Alerts       []Alert `json:"alerts,omitzero"`
}

// Alert is an alert that fires.
type Alert struct {
	Rule    string `json:"rule"`
	Subject string `json:"subject,omitzero"`
	Since   int64  `json:"since"`
	ID      string `json:"id"` // of the event that announced it
}

// HookList is the answer to GET /v1/hooks.
type HookList struct {
	Hooks []Hook `json:"hooks"`
	LSN   string `json:"lsn"`
}

// HookTested is the answer to POST /v1/hooks/{name}/test.
type HookTested struct {
	ID  string `json:"id"` // of the event
	LSN string `json:"lsn"`
}

// HookDeliveries is the answer to GET /v1/hooks/{name}/deliveries.
type HookDeliveries struct {
	// Pending are the oldest events in the outbox.
	Pending []HookEvent `json:"pending"`
	// Attempts are the last deliveries of the node that answers, newest first.
	Attempts []HookAttempt `json:"attempts"`
	LSN      string        `json:"lsn"`
}

// HookAttempt is one delivery.
type HookAttempt struct {
	ID      string `json:"id"` // of the event
	Type    string `json:"type"`
	At      int64  `json:"at"`
	Attempt int    `json:"attempt"` // of this leader, from 1
	TookMs  int64  `json:"tookMs"`
	Status  int    `json:"status,omitzero"` // of the answer; 0: there was none
	Error   string `json:"error,omitzero"`  // empty: delivered
}

// HookEvent is an event, and the body of a delivery.
type HookEvent struct {
	// ID is the same in every repetition; it is the header webhook-id, too.
	ID   string `json:"id"`
	Type string `json:"type"` // kind of the event, such as job.dead
	// Timestamp is the time of the event, RFC 3339, by the queue's clock.
	Timestamp string        `json:"timestamp"`
	Data      HookEventData `json:"data"`
}

// HookEventData describes an event.
type HookEventData struct {
	// Subject is the type of the job, or the worker, node, batch, schedule or type that the
	// event is about.
	Subject  string `json:"subject"`
	JobID    string `json:"jobId,omitzero"`
	Attempts int32  `json:"attempts,omitzero"`
	Message  string `json:"message,omitzero"` // error or reason
	// State is firing or resolved, for alerts.
	State   string `json:"state,omitzero"`
	AlertID string `json:"alertId,omitzero"` // the same in both
	Since   int64  `json:"since,omitzero"`   // when the alert began, ms
	// Actor is the identity whose request made the change, as in Event.
	Actor string `json:"actor,omitzero"`
}
