package dtq

import (
	"time"

	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/api/v1"
)

// The statuses of a task. One that is out of attempts, or was cancelled, which
// dtq's clients cannot do, has the job's.
const (
	statusPending    = "pending"
	statusProcessing = "processing"
	statusCompleted  = "completed"
)

// task is a task as dtq shows it, with its members in order. Those of later
// statuses are absent in earlier ones.
type task struct {
	CompletedAt string         `json:"completed_at,omitzero"`
	CreatedAt   string         `json:"created_at"`
	Error       string         `json:"error,omitzero"` // of one that ended in another way
	Payload     jsontext.Value `json:"payload"`
	Result      jsontext.Value `json:"result,omitzero"`
	StartedAt   string         `json:"started_at,omitzero"`
	Status      string         `json:"status"`
	TaskID      string         `json:"task_id"`
	TaskType    jsontext.Value `json:"task_type"`
	WorkerID    jsontext.Value `json:"worker_id,omitzero"`
}

// handedOut is the task as it was before it was claimed: that is how dtq gives it
// out.
func handedOut(j *v1.ClaimedJob) task {
	return task{
		CreatedAt: localTime(j.CreatedAt), Payload: orNull(j.Payload), Status: statusPending,
		TaskID: j.JobID, TaskType: taskTypeOf(j.Type),
	}
}

// taskOf is the task that a job is.
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
	default:
		t.Status = statusPending
		return t
	}
	if j.ClaimedAt != 0 {
		t.StartedAt, t.WorkerID = localTime(j.ClaimedAt), workerOf(j)
	}
	return t
}

// workerOf is who has, or had, the job. One that was silent for too long and came
// with the result all the same is only known from the history.
func workerOf(j *v1.Job) jsontext.Value {
	if j.WorkerID != nil {
		return valueOf(*j.WorkerID)
	}
	if n := len(j.History); n > 0 && j.Status == v1.StatusCompleted && j.History[n-1].WorkerID != nil {
		return valueOf(*j.History[n-1].WorkerID)
	}
	return jsontext.Value("null")
}

func orNull(v jsontext.Value) jsontext.Value {
	if v == nil {
		return jsontext.Value("null")
	}
	return v
}

// localTime is a time as dtq writes it: that of the node's zone, without saying
// which, in microseconds.
func localTime(ms int64) string {
	return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000000")
}
