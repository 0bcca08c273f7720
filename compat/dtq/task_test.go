package dtq

import (
	"net/http"
	"regexp"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

func TestTasks(t *testing.T) {
	const created, claimed, finished = 1_795_255_611_258, 1_795_255_612_000, 1_795_255_613_001
	at := func(ms int64) string { return time.UnixMilli(ms).Format("2006-01-02T15:04:05.000") + "000" }
	worker, silent := "w", "json:7"
	job := func(change func(*v1.Job)) *v1.Job {
		j := &v1.Job{ID: "id", Type: "t", Payload: []byte(`{"b":1,"a":{"d":1.50,"c":12345678901234567890}}`), CreatedAt: created}
		change(j)
		return j
	}
	const payload = `"payload":{"a":{"c":12345678901234567890,"d":1.50},"b":1},`
	const tail = `"task_id":"id","task_type":"t"`
	head := `{"created_at":"` + at(created) + `",` + payload
	over := `{"completed_at":"` + at(finished) + `","created_at":"` + at(created) + `",` + payload
	for name, c := range map[string]struct {
		job  *v1.Job
		want string
	}{
		"pending":   {job(func(j *v1.Job) { j.Status = v1.StatusUnclaimed }), head + `"status":"pending",` + tail + `}`},
		"scheduled": {job(func(j *v1.Job) { j.Status = v1.StatusScheduled }), head + `"status":"pending",` + tail + `}`},
		"went back": {job(func(j *v1.Job) { j.Status, j.ClaimedAt = v1.StatusUnclaimed, claimed }), head + `"status":"pending",` + tail + `}`},
		"processing": {
			job(func(j *v1.Job) { j.Status, j.ClaimedAt, j.WorkerID = v1.StatusInProgress, claimed, &worker }),
			head + `"started_at":"` + at(claimed) + `","status":"processing",` + tail + `,"worker_id":"w"}`,
		},
		"processing by nobody": {
			job(func(j *v1.Job) { j.Status, j.ClaimedAt = v1.StatusInProgress, claimed }),
			head + `"started_at":"` + at(claimed) + `","status":"processing",` + tail + `,"worker_id":null}`,
		},
		"completed": {
			job(func(j *v1.Job) {
				j.Status, j.ClaimedAt, j.WorkerID, j.FinishedAt = v1.StatusCompleted, claimed, &worker, finished
				j.Result = []byte(`{"z":0,"y":[]}`)
			}),
			over + `"result":{"y":[],"z":0},"started_at":"` + at(claimed) + `","status":"completed",` + tail + `,"worker_id":"w"}`,
		},
		"completed without worker": {
			job(func(j *v1.Job) { j.Status, j.FinishedAt = v1.StatusCompleted, finished }),
			over + `"result":null,"status":"completed",` + tail + `}`,
		},
		"completed too late": {
			job(func(j *v1.Job) {
				j.Status, j.ClaimedAt, j.FinishedAt = v1.StatusCompleted, claimed, finished
				j.History = []v1.Attempt{{WorkerID: &worker}, {WorkerID: &silent}}
			}),
			over + `"result":null,"started_at":"` + at(claimed) + `","status":"completed",` + tail + `,"worker_id":7}`,
		},
		"dead": {
			job(func(j *v1.Job) {
				j.Status, j.ClaimedAt, j.WorkerID, j.LastError = v1.StatusDead, claimed, &worker, "gone"
			}),
			`{"created_at":"` + at(created) + `","error":"gone",` + payload + `"started_at":"` + at(claimed) + `","status":"dead",` + tail + `,"worker_id":"w"}`,
		},
		"nothing": {
			&v1.Job{ID: "id", Status: v1.StatusUnclaimed, CreatedAt: created},
			`{"created_at":"` + at(created) + `","payload":null,"status":"pending","task_id":"id","task_type":null}`,
		},
	} {
		if got := jsonReply(http.StatusOK, taskOf(c.job)); string(got.body) != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got.body, c.want)
		}
	}
}

// A time always has six digits of microseconds.
func TestTimes(t *testing.T) {
	for _, ms := range []int64{1_795_255_612_000, 1_795_255_612_007} {
		if got := localTime(ms); !regexp.MustCompile(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.00[07]000$`).MatchString(got) {
			t.Errorf("%d is %s", ms, got)
		}
	}
}
