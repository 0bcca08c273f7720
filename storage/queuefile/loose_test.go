package queuefile_test

import (
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"osqueue/fsm"
	"osqueue/storage/queuefile"
)

// odd is a document of an original broker with one job that has odd members.
func odd(members string) string {
	return fmt.Sprintf(`{"broker":"b","brokerHeartbeat":9,"jobs":[{"id":"a","status":"unclaimed",%s},`+
		`{"id":"next","status":"unclaimed","payload":1,"createdAt":3,"attempts":0}],"completedTotal":0}`, members)
}

// Whatever the original let pass, the job is there, in its place, and everything
// that makes sense of it.
func TestOddValuesOfAnOriginal(t *testing.T) {
	for members, check := range map[string]func(*fsm.Job) bool{
		`"type":5`:                     func(j *fsm.Job) bool { return j.Type == "5" },
		`"type":{"x":1}`:               func(j *fsm.Job) bool { return j.Type == `{"x":1}` },
		`"type":null`:                  func(j *fsm.Job) bool { return j.Type == "" },
		`"type":true`:                  func(j *fsm.Job) bool { return j.Type == "true" },
		`"workerId":17`:                func(j *fsm.Job) bool { return j.Worker == "17" },
		`"maxAttempts":2.7`:            func(j *fsm.Job) bool { return j.MaxAttempts == 2 },
		`"maxAttempts":1e99`:           func(j *fsm.Job) bool { return j.MaxAttempts == math.MaxInt32 },
		`"maxAttempts":"4"`:            func(j *fsm.Job) bool { return j.MaxAttempts == 4 },
		`"maxAttempts":"many"`:         func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"maxAttempts":[3]`:            func(j *fsm.Job) bool { return j.MaxAttempts == fsm.MaxAttemptsUnset },
		`"attempts":false`:             func(j *fsm.Job) bool { return j.Attempts == 0 },
		`"attempts":9999999999`:        func(j *fsm.Job) bool { return j.Attempts == math.MaxInt32 },
		`"createdAt":1700000000000.5`:  func(j *fsm.Job) bool { return j.CreatedAt == 1_700_000_000_000 },
		`"createdAt":-1e300`:           func(j *fsm.Job) bool { return j.CreatedAt == math.MinInt64 },
		`"createdAt":"2024-01-23"`:     func(j *fsm.Job) bool { return j.CreatedAt == 0 },
		`"priority":"high"`:            func(j *fsm.Job) bool { return j.Priority == 0 },
		`"result":{"n":1},"token":"x"`: func(j *fsm.Job) bool { return j.Token == 0 },
		"\"type\":1,\"payload\":\"\xff\"": func(j *fsm.Job) bool {
			return string(j.Payload) == "\"\xff\""
		},
	} {
		doc, m := machine(t, []byte(odd(members)))
		a := m.Job("a")
		if a == nil || !check(a) || doc.Jobs[0].ID != "a" || m.Job("next") == nil {
			t.Errorf("%s: read as %+v", members, a)
		}
	}
}

// What is not for guessing stays an error: which list a job belongs to, and
// whatever stands outside of jobs.
func TestOddValuesThatCount(t *testing.T) {
	for name, text := range map[string]string{
		"status":       odd(`"status":"queued"`),
		"status type":  odd(`"status":1`),
		"no id":        `{"jobs":[{"status":"unclaimed","type":1}]}`,
		"jobs":         `{"jobs":{"a":1}}`,
		"a job":        `{"jobs":[7]}`,
		"total":        `{"jobs":[],"completedTotal":"many"}`,
		"no JSON":      odd(`"type":1,`),
		"an own token": strings.Replace(own(t), `"jobs":[`, `"jobs":[{"id":"x","status":"unclaimed","type":1},`, 1),
	} {
		if _, err := queuefile.Decode([]byte(text)); !errors.Is(err, queuefile.ErrFormat) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// own is a document of ours.
func own(t *testing.T) string {
	t.Helper()
	return string(queuefile.Encode(rich(t).View(), header, header.Address, header.Heartbeat))
}
