package queue

import (
	"fmt"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestJobGet(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "x", Type: "bad", Payload: []byte(`{"a":1}`)})
	got := osqTest(t, q, "", "job", "get", "x")
	for _, want := range []string{"id          x\n", "type        bad\n", "status      dead\n", "2023-11-14 22:13:20.000 UTC", "payload     {\"a\":1}\n", "no luck\n            at all"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if strings.Contains(got.Out, "result") || strings.Contains(got.Out, "heartbeat") {
		t.Errorf("what is unset is shown:\n%s", got.Out)
	}
	if got := osqTest(t, q, "", "job", "get", "x", "--json"); !strings.HasPrefix(got.Out, `{"id":"x","status":"dead"`) {
		t.Errorf("%+v", got)
	}
	if got := osqTest(t, q, "", "job", "get", "y"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no such job") {
		t.Errorf("%+v", got)
	}
}

// The log of the attempt that completed a job stands behind its result.
func TestJobLog(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "x", Payload: []byte("7")})
	q.Jobs[0].Log = "one\nresult  \t8\n"
	if got := osqTest(t, q, "", "job", "show", "x"); !strings.HasSuffix(got.Out, "result    7\nlog       one\n          result      8\n") {
		t.Errorf("%+v", got)
	}
	if got := osqTest(t, q, "", "job", "show", "x", "--json"); !strings.Contains(got.Out, `"log":"one\nresult  \t8\n"`) {
		t.Errorf("%+v", got)
	}
}

func TestJobList(t *testing.T) {
	q := clitest.NewFake(t)
	for i := range 1203 {
		q.Add(v1.NewJob{ID: fmt.Sprintf("j%d", i), Type: []string{"good", "bad"}[i%2]})
	}
	ids := func(args ...string) (lines []string, notes string) {
		got := osqTest(t, q, "", append([]string{"job", "list"}, args...)...)
		if got.Code != view.ExitOK {
			t.Fatalf("%+v", got)
		}
		return strings.Split(strings.TrimSpace(got.Out), "\n"), got.Err
	}
	lines, notes := ids()
	if len(lines) != 101 || !strings.HasPrefix(lines[1], "j0 ") || !strings.Contains(notes, "more jobs than 100") {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--all"); len(lines) != 1204 || notes != "" {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--status", "dead", "--type", "bad", "--limit", "2000", "--json"); len(lines) != 601 || notes != "" {
		t.Errorf("%d lines, %s", len(lines), notes)
	}
	if lines, notes = ids("--status", "unclaimed,scheduled"); len(lines) != 1 || notes != "" {
		t.Errorf("%v, %s", lines, notes)
	}
	if lines, _ = ids("--limit", "1203"); len(lines) != 1204 {
		t.Errorf("%d lines", len(lines))
	}
}
