package clitest

import (
	"encoding/json"
	"net/http"

	v1 "osqueue/client/api/v1"
)

// reports adds the reports of workers, which come in batches.
func (q *Fake) reports(mux *http.ServeMux) {
	batch := func(change func(j *v1.Job, result json.RawMessage, reason string)) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			var in struct {
				WorkerID *string       `json:"workerId"`
				Claim    *v1.NextClaim `json:"claim"` // gets nothing, as if no job were available
				Jobs     []struct {
					v1.CompleteLease
					Error     string `json:"error"`
					Class     string `json:"class"`
					Retryable *bool  `json:"retryable"`
					DelayMs   *int64 `json:"delayMs"`
				} `json:"jobs"`
			}
			if !q.read(w, r, &in) {
				return
			}
			out := v1.ReportedBatch{LSN: "3-1"}
			for _, item := range in.Jobs {
				status := v1.TagNotFound
				if j := q.Find(item.JobID); j != nil {
					change(j, item.Result, item.Error)
					status = v1.ItemOK
				}
				out.Results = append(out.Results, v1.ReportedItem{JobID: item.JobID, Status: status})
			}
			answer(w, out)
		}
	}
	mux.HandleFunc("POST /v1/jobs/complete", batch(func(j *v1.Job, result json.RawMessage, _ string) {
		j.Status, j.Result = v1.StatusCompleted, result
	}))
	mux.HandleFunc("POST /v1/jobs/fail", batch(func(j *v1.Job, _ json.RawMessage, reason string) {
		j.Status, j.LastError = v1.StatusDead, reason
	}))
	mux.HandleFunc("POST /v1/jobs/release", batch(func(j *v1.Job, _ json.RawMessage, _ string) { j.Status = v1.StatusUnclaimed }))
}
