package queue

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// evilJob is a job with clitest.Evil in every text, as jobs of other protocols may be.
func evilJob(id, status string) *v1.Job {
	worker := "w\n" + clitest.Evil
	return &v1.Job{
		ID: id, Type: "t\t" + clitest.Evil, Status: status, Attempts: 1, WorkerID: &worker, Group: clitest.Evil, Tags: []string{clitest.Evil}, Limits: []string{clitest.Evil}, WaitsForLimit: clitest.Evil,
		UniqueKey: clitest.Evil, Cron: clitest.Evil, BatchID: clitest.Evil, Payload: []byte("\"\u009b1m\""), Result: []byte("\"\u009b2m\""),
		Progress: &v1.Progress{Percent: 7, Message: "progress " + clitest.Evil}, Log: "log " + clitest.Evil + "\nsecond line",
		LastError: "error " + clitest.Evil + strings.Repeat("\x00", 4096) + "end\nstack " + clitest.Evil,
		History:   []v1.Attempt{{Number: 1, End: "failed", WorkerID: &worker, Error: "attempt " + clitest.Evil}},
	}
}

func TestJobsDoNotCommandTheTerminal(t *testing.T) {
	q := clitest.NewFake(t)
	q.Jobs = []*v1.Job{evilJob("d", v1.StatusDead), evilJob("c", v1.StatusCompleted), evilJob("r", v1.StatusInProgress)}
	for line, want := range map[string][]string{
		"job show d": {
			"log " + clitest.EvilShown + "\n            second line\n", "7% progress " + clitest.EvilShown, "error " + clitest.EvilShown + `\x00(×4096)end` + "\n            stack " + clitest.EvilShown,
			`on w\n` + clitest.EvilShown + ": attempt " + clitest.EvilShown, `"\u009b1m"`, `"\u009b2m"`,
		},
		"dead ls -o wide":             {`w\n` + clitest.EvilShown, "error " + clitest.EvilShown + `\x00(×4096)end`, `t\t` + clitest.EvilShown},
		"job ls --status all -o wide": {"running 7%", `w\n` + clitest.EvilShown, `t\t` + clitest.EvilShown},
		"job wait d c":                {"d\tdead\terror " + clitest.EvilShown + `\x00(×4096)end` + "\n"},
		"job wait d":                  {"job d is dead: error " + clitest.EvilShown},
		"job cancel d c":              {"c  not cancelled"},
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		passedOn := "\"\u009b2m\"" // the result, to programs
		if !strings.HasPrefix(line, "job wait") {
			passedOn = "there is none"
		}
		clitest.Harmless(t, line, strings.ReplaceAll(got.Out, passedOn, "")+got.Err)
		for _, text := range want {
			if !strings.Contains(got.Out+got.Err, text) {
				t.Errorf("%s: %q is missing:\n%s%s", line, text, got.Out, got.Err)
			}
		}
	}
	if got := osq.Run(t, q, "", "job", "ls", "--status", "all"); strings.Count(got.Out, "\n") != 4 {
		t.Errorf("a name makes a line:\n%s", got.Out)
	}
}

// Output for programs stays unchanged: results, outputs of commands, and JSON.
func TestProgramsGetWhatProgramsWrote(t *testing.T) {
	q := clitest.NewFake(t)
	q.Jobs = []*v1.Job{evilJob("c", v1.StatusCompleted), evilJob("c2", v1.StatusCompleted)}
	result := string(q.Jobs[0].Result)
	for line, want := range map[string]string{
		"job wait c":                             result + "\n",
		"job wait c c2":                          "c\tcompleted\t" + result + "\nc2\tcompleted\t" + result + "\n",
		"submit good \"\u009b2m\" --wait --id x": result + "\n",
	} {
		if got := osq.Run(t, q, "", strings.Fields(line)...); got.Out != want {
			t.Errorf("%s: %q, want %q; %s", line, got.Out, want, got.Err)
		}
	}
	if got := osq.Run(t, q, result+"\n", "submit", "good", "--file", "-", "--wait", "--id", "y"); !strings.HasSuffix(got.Out, "\tcompleted\t"+result+"\n") {
		t.Errorf("%q", got.Out)
	}
	if got := osq.Run(t, q, "", "run", "--", "echo", clitest.Evil+"\x00"); got.Out != clitest.Evil+"\x00" {
		t.Errorf("%q; %s", got.Out, got.Err)
	}
	if got := osq.Run(t, q, "x\n", "map", "-", "--", "echo", clitest.Evil); got.Out != clitest.Evil+" x\n" {
		t.Errorf("%q; %s", got.Out, got.Err)
	}
	if got := osq.Run(t, q, "", "run", "--", "warn", clitest.Evil); got.Err != clitest.Evil+"\n" {
		t.Errorf("%q", got.Err)
	}
	if got := osq.Run(t, q, "x\n", "map", "-", "--", "warn", clitest.Evil); !strings.HasPrefix(got.Err, clitest.Evil+" x\n") {
		t.Errorf("%q", got.Err)
	}
	got := osq.Run(t, q, "", "job", "show", "c", "--json")
	var read, shown struct{ Type, Result, LastError string }
	stored, err := json.Marshal(q.Jobs[0])
	check(t, err)
	if errors.Join(json.Unmarshal(stored, &read), json.Unmarshal([]byte(got.Out), &shown)) != nil || shown != read || shown.Type == "" {
		t.Errorf("a program reads %.200q", got.Out)
	}
}

// Messages for people never contain control characters, even where the output of a job
// is passed through.
func TestFailuresDoNotCommandTheTerminal(t *testing.T) {
	q := clitest.NewFake(t)
	for _, got := range []clitest.Result{
		osq.Run(t, q, "", "run", "--", "fail", clitest.Evil), osq.Run(t, q, "x\n", "map", "-", "--", "fail", clitest.Evil),
		osq.Run(t, q, "", "job", "cancel", clitest.Evil, "k"),
	} {
		clitest.Harmless(t, "failure", got.Out+got.Err)
		if !strings.Contains(got.Out+got.Err, clitest.EvilShown) {
			t.Errorf("%+v", got)
		}
	}
}

func TestEventsDoNotCommandTheTerminal(t *testing.T) {
	var out, none bytes.Buffer
	g := &view.Globals{Out: &out, Err: &none}
	worker := "w" + clitest.Evil
	for _, e := range []v1.Event{
		{Kind: v1.EventProgress, JobID: "j", Message: "half\n12:00:00.000  job.completed  " + clitest.Evil},
		{Kind: v1.EventClaimed, JobID: clitest.Evil, Type: clitest.Evil, WorkerID: &worker, Error: clitest.Evil, Name: clitest.Evil},
	} {
		check(t, showEvent(g, e))
	}
	clitest.Harmless(t, "events", out.String())
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), `half\n12:00`) || !strings.Contains(out.String(), "on w"+clitest.EvilShown) {
		t.Errorf("%s", out.String())
	}
}

func TestOrderOfQueues(t *testing.T) {
	q := clitest.NewFake(t)
	var got []string
	q.Refuse = func(r *http.Request) *v1.Problem {
		if r.URL.Path == v1.PathQueues {
			got = append(got, r.URL.Query().Get(v1.ParamSort))
		}
		return nil
	}
	for _, sort := range []string{"name", "oldest", "available"} {
		if out := osq.Run(t, q, "", "queue", "ls", "--sort", sort); out.Code != view.ExitOK {
			t.Errorf("%s: %+v", sort, out)
		}
	}
	if want := []string{"", v1.SortOldestAt, v1.SortMostUnclaimed}; !slices.Equal(got, want) {
		t.Errorf("asked for %q, want %q", got, want)
	}
}
