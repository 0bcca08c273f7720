package dtq

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
)

// The statuses of a task. A dead or cancelled task has the status of the job; one that has expired is cancelled.
const (
	statusPending    = "pending"
	statusProcessing = "processing"
	statusCompleted  = "completed"
)

// A task is a task in dtq's JSON, with its fields in order. The fields of a later
// status are absent in an earlier one.
type task struct {
	CompletedAt string         `json:"completed_at,omitzero"`
	CreatedAt   string         `json:"created_at"`
	Error       string         `json:"error,omitzero"` // of a dead or cancelled task
	Payload     jsontext.Value `json:"payload"`
	Result      jsontext.Value `json:"result,omitzero"`
	StartedAt   string         `json:"started_at,omitzero"`
	Status      string         `json:"status"`
	TaskID      string         `json:"task_id"`
	TaskType    jsontext.Value `json:"task_type"`
	WorkerID    jsontext.Value `json:"worker_id,omitzero"`
}

// handedOut returns the task in the state from before the claim, as dtq's claims do.
func handedOut(j *v1.ClaimedJob) task {
	return task{
		CreatedAt: localTime(j.CreatedAt), Payload: orNull(j.Payload), Status: statusPending,
		TaskID: j.JobID, TaskType: taskTypeOf(j.Type),
	}
}

// taskOf converts a job to a task.
func taskOf(j *v1.Job) task {
	t := task{
		CreatedAt: localTime(j.CreatedAt), Payload: orNull(j.Payload), TaskID: j.ID, TaskType: taskTypeOf(j.Type),
	}
	switch j.Status {
	case v1.StatusInProgress:
		t.Status = statusProcessing
	case v1.StatusCompleted:
		t.Status, t.Result, t.CompletedAt = statusCompleted, orNull(j.Result), localTime(j.FinishedAt)
	case v1.StatusDead, v1.StatusCancelled:
		t.Status, t.Error = j.Status, j.LastError
	case v1.StatusExpired:
		t.Status = v1.StatusCancelled
	default:
		t.Status = statusPending
		return t
	}
	if j.ClaimedAt != 0 {
		t.StartedAt, t.WorkerID = localTime(j.ClaimedAt), workerOf(j)
	}
	return t
}

// workerOf returns the worker that has or had the job. Only the history names a worker
// that lost its lease and reported the result later.
func workerOf(j *v1.Job) jsontext.Value {
	if j.WorkerID != nil {
		return valueOf(*j.WorkerID)
	}
	if n := len(j.History); n > 0 && j.Status == v1.StatusCompleted && j.History[n-1].WorkerID != nil {
		return valueOf(*j.History[n-1].WorkerID)
	}
	return jsontext.Value("null")
}

func orNull(v []byte) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

// localTime formats a time as dtq does: in the node's time zone, without naming it,
// with microseconds. ms is the Unix time in milliseconds.
func localTime(ms int64) string {
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000000")
}
