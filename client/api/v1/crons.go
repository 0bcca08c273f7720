package v1

// NewCron makes or replaces a schedule: PUT /v1/crons/{name}.
type NewCron struct {
	// Spec is five fields (minute, hour, day of month, month, day of week), six
	// with seconds in front, or @every 5m, @hourly, @daily and the like.
	Spec string `json:"spec"`
	// TimeZone is an IANA name; absent is UTC.
	TimeZone string `json:"timeZone,omitzero"`
	// Job is what is enqueued. Its id, runAt, after and batchId must be absent.
	Job NewJob `json:"job"`
	// Overlap is what happens while the last job has not ended: "allow"
	// (default) or "skip".
	Overlap string `json:"overlap,omitzero"`
	// Missed is the policy for times that passed more than a minute ago without a
	// leader: "skip" (default), or "one" fire for all of them.
	Missed string `json:"missed,omitzero"`
	Paused bool   `json:"paused,omitzero"`
}

// The values of NewCron.Overlap and NewCron.Missed.
const (
	OverlapAllow = "allow"
	OverlapSkip  = "skip"
	MissedSkip   = "skip"
	MissedOne    = "one"
)

// Cron is a schedule: GET /v1/crons/{name}.
type Cron struct {
	Name string `json:"name"`
	NewCron
	NextAt      int64  `json:"nextAt,omitzero"` // absent: paused, or never
	CreatedAt   int64  `json:"createdAt"`
	UpdatedAt   int64  `json:"updatedAt"`
	LastAt      int64  `json:"lastAt,omitzero"`
	LastJobID   string `json:"lastJobId,omitzero"`
	LastError   string `json:"lastError,omitzero"` // why the last fire enqueued nothing
	Fired       uint64 `json:"fired"`
	Skipped     uint64 `json:"skipped"`
	MissedCount uint64 `json:"missedCount"`
}

// CronList is the answer to GET /v1/crons, by name.
type CronList struct {
	Crons      []Cron `json:"crons"`
	NextCursor string `json:"nextCursor,omitzero"`
	LSN        string `json:"lsn"`
}

// CronPut is the answer to PUT, pause and resume.
type CronPut struct {
	NextAt int64  `json:"nextAt,omitzero"`
	LSN    string `json:"lsn"`
}
