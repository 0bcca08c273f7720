package v1

// ChangeJobs cancels, retries or deletes jobs: POST /v1/jobs/cancel, …/retry,
// …/delete. It names ids, or a filter, not both.
type ChangeJobs struct {
	IDs    []string `json:"ids,omitzero"`
	Filter *Filter  `json:"filter,omitzero"`
	// Limit is the most jobs that a filter changes in one call; absent is as
	// many as one call can.
	Limit int `json:"limit,omitzero"`
	// Cursor is the NextCursor of the answer before.
	Cursor string `json:"cursor,omitzero"`
}

// Filter matches jobs that have all that it names. A filter that names nothing
// matches all jobs, and must say so.
type Filter struct {
	All           bool     `json:"all,omitzero"`
	Statuses      []string `json:"statuses,omitzero"`
	Type          *string  `json:"type,omitzero"`
	Tag           string   `json:"tag,omitzero"`
	Group         *string  `json:"group,omitzero"`
	BatchID       string   `json:"batchId,omitzero"`
	WorkerID      *string  `json:"workerId,omitzero"`
	CreatedFrom   int64    `json:"createdFrom,omitzero"`
	CreatedBefore int64    `json:"createdBefore,omitzero"`
}

// Changed is the answer to a ChangeJobs. With ids, Results has one item for
// each, in their order; with a filter, Count is the number of jobs changed, and
// NextCursor, if there may be more, is for the next call.
type Changed struct {
	Count      uint64         `json:"count"`
	Results    []ReportedItem `json:"results,omitzero"`
	NextCursor string         `json:"nextCursor,omitzero"`
	LSN        string         `json:"lsn"`
}
