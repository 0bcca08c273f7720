package work

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// Hostile jobs fail with a reason, and the worker does the others.
func TestWorkerOutlivesHostileJobs(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "bomb", Type: "c", Payload: []byte(`{"argv":["python3","-Ic","import os\nwhile True:\n  try: os.fork()\n  except OSError: pass"]}`)})
	q.Add(v1.NewJob{ID: "output", Type: "c", Payload: []byte(`{"argv":["cat","/dev/zero"]}`)})
	q.Add(v1.NewJob{ID: "daemon", Type: "c", Payload: []byte(`{"argv":["sh","-c","setsid sleep 300 >/dev/null 2>&1 & exit 0"]}`)})
	q.Add(v1.NewJob{ID: "hog", Type: "c", Payload: []byte(`{"argv":["python3","-Ic","bytearray(1 << 30)"]}`)})
	q.Add(v1.NewJob{ID: "good", Type: "c", Payload: []byte(`{"argv":["echo","fine"]}`)})
	for _, j := range q.Jobs {
		j.Status = v1.StatusUnclaimed
	}
	got := runUntil(t, q, allEnded, "--commands", "c", "--limit-time", "2s", "--limit-processes", "20", "--limit-memory", "256MiB",
		"--concurrency", "2", "--sandbox-uids", "1930000000-1930000015")
	if got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	for id, want := range map[string]string{"bomb": "longer than its timeout", "output": "too much to stdout", "daemon": "a process that it started still ran"} {
		if j := q.Find(id); j.Status != v1.StatusDead || !strings.Contains(j.LastError, want) {
			t.Errorf("%s is %s: %s %s", id, j.Status, j.Result, j.LastError)
		}
	}
	if j := q.Find("hog"); !strings.Contains(string(j.Result), "MemoryError") || !strings.Contains(string(j.Result), `"exit":1`) {
		t.Errorf("hog: %s %s", j.Result, j.LastError)
	}
	if j := q.Find("good"); string(j.Result) != `{"exit":0,"stdout":"fine\n","stderr":""}` {
		t.Errorf("good: %s %s", j.Result, j.LastError)
	}
}
