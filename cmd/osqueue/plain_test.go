package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"unicode"

	"github.com/hashicorp/go-hclog"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/clitest"
	"osqueue/internal/cli/view"
)

// evil clears the screen, sets a title in two ways, and turns the order round.
const evil = "\x1b[2Jevil\u009b1m\u202e\a"

const evilShown = `\x1b[2Jevil\u009b1m\u202e\a`

// harmless fails the test if a text has what commands a terminal.
func harmless(t *testing.T, where, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s: %q at %d of\n%q", where, r, i, text)
			return
		}
	}
}

// evilJob is a job whose every text is evil, as jobs of other protocols may be.
func evilJob(id, status string) *v1.Job {
	worker := "w\n" + evil
	return &v1.Job{
		ID: id, Type: "t\t" + evil, Status: status, Attempts: 1, WorkerID: &worker, Group: evil, Tags: []string{evil},
		UniqueKey: evil, Cron: evil, BatchID: evil, Payload: []byte("\"\u009b1m\""), Result: []byte("\"\u009b2m\""),
		Progress: &v1.Progress{Percent: 7, Message: "progress " + evil}, Log: "log " + evil + "\nsecond line",
		LastError: "error " + evil + strings.Repeat("\x00", 4096) + "end\nstack " + evil,
		History:   []v1.Attempt{{Number: 1, End: "failed", WorkerID: &worker, Error: "attempt " + evil}},
	}
}

func TestJobsDoNotCommandTheTerminal(t *testing.T) {
	q := clitest.NewFake(t)
	q.Jobs = []*v1.Job{evilJob("d", v1.StatusDead), evilJob("c", v1.StatusCompleted), evilJob("r", v1.StatusInProgress)}
	for line, want := range map[string][]string{
		"job show d": {
			"log " + evilShown + "\n            second line\n", "7% progress " + evilShown, "error " + evilShown + `\x00(×4096)end` + "\n            stack " + evilShown,
			`on w\n` + evilShown + ": attempt " + evilShown, `"\u009b1m"`, `"\u009b2m"`,
		},
		"dead ls":             {`w\n` + evilShown, "error " + evilShown + `\x00(×4096)end`, `t\t` + evilShown},
		"job ls --status all": {"running 7%", `w\n` + evilShown, `t\t` + evilShown},
		"job wait d c":        {"d\tdead\terror " + evilShown + `\x00(×4096)end` + "\n"},
		"job wait d":          {"job d is dead: error " + evilShown},
		"job cancel d c":      {"c  not cancelled"},
	} {
		got := osqTest(t, q, "", strings.Fields(line)...)
		passedOn := "\"\u009b2m\"" // the result, to programs
		if !strings.HasPrefix(line, "job wait") {
			passedOn = "there is none"
		}
		harmless(t, line, strings.ReplaceAll(got.Out, passedOn, "")+got.Err)
		for _, text := range want {
			if !strings.Contains(got.Out+got.Err, text) {
				t.Errorf("%s: %q is missing:\n%s%s", line, text, got.Out, got.Err)
			}
		}
	}
	if got := osqTest(t, q, "", "job", "ls", "--status", "all"); strings.Count(got.Out, "\n") != 4 {
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
		if got := osqTest(t, q, "", strings.Fields(line)...); got.Out != want {
			t.Errorf("%s: %q, want %q; %s", line, got.Out, want, got.Err)
		}
	}
	if got := osqTest(t, q, result+"\n", "submit", "good", "--file", "-", "--wait", "--id", "y"); !strings.HasSuffix(got.Out, "\tcompleted\t"+result+"\n") {
		t.Errorf("%q", got.Out)
	}
	if got := osqTest(t, q, "", "run", "--", "echo", evil+"\x00"); got.Out != evil+"\x00" {
		t.Errorf("%q; %s", got.Out, got.Err)
	}
	if got := osqTest(t, q, "x\n", "map", "-", "--", "echo", evil); got.Out != evil+" x\n" {
		t.Errorf("%q; %s", got.Out, got.Err)
	}
	if got := osqTest(t, q, "", "run", "--", "warn", evil); got.Err != evil+"\n" {
		t.Errorf("%q", got.Err)
	}
	if got := osqTest(t, q, "x\n", "map", "-", "--", "warn", evil); !strings.HasPrefix(got.Err, evil+" x\n") {
		t.Errorf("%q", got.Err)
	}
	if got := osqTest(t, q, "", "job", "show", "c", "--json"); !strings.Contains(got.Out, "evil\u009b1m\u202e") || !strings.Contains(got.Out, result) {
		t.Errorf("%q", got.Out)
	}
}

// The lines of the worker are for people; the cluster gets the error as it was.
func TestWorkerLinesDoNotCommandTheTerminal(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j1", Type: "wait"})
	q.Add(v1.NewJob{ID: "j2", Type: "title"})
	q.Jobs[1].Status = v1.StatusUnclaimed
	got := runUntil(t, q, allEnded, "--exec", `wait=sh -c 'head -c 1000 /dev/zero >&2; printf end >&2; exit 4'`,
		"--exec", `title=sh -c 'printf "\033]0;mine\007 \302\233" >&2; exit 4'`)
	harmless(t, "worker", got.Out+got.Err)
	for _, want := range []string{`exit status 4: \x00(×1000)end` + "\n", `exit status 4: \x1b]0;mine\a \u009b` + "\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if reason := q.All()[1].LastError; !strings.Contains(reason, "\x1b]0;mine\a \u009b") {
		t.Errorf("%q", reason)
	}
}

// The log of a worker quotes errors of jobs; hclog shows their controls itself.
func TestLogLinesDoNotCommandTheTerminal(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Name: "worker", Output: &out})
	log.Warn("refused", "job", evil, "error", fmt.Errorf("%s\nsecond %s", evil, evil), "jobs", []string{evil})
	harmless(t, "log", out.String())
	if !strings.Contains(out.String(), `\x1b[2Jevil`) {
		t.Errorf("%s", out.String())
	}
}

// Messages for people never contain control characters, even where the output of a job
// is passed through.
func TestFailuresDoNotCommandTheTerminal(t *testing.T) {
	q := clitest.NewFake(t)
	for _, got := range []clitest.Result{
		osqTest(t, q, "", "run", "--", "fail", evil), osqTest(t, q, "x\n", "map", "-", "--", "fail", evil),
		osqTest(t, q, "", "job", "cancel", evil, "k"),
	} {
		harmless(t, "failure", got.Out+got.Err)
		if !strings.Contains(got.Out+got.Err, evilShown) {
			t.Errorf("%+v", got)
		}
	}
}

func TestEventsDoNotCommandTheTerminal(t *testing.T) {
	var out, none bytes.Buffer
	g := &view.Globals{Out: &out, Err: &none}
	worker := "w" + evil
	for _, e := range []v1.Event{
		{Kind: v1.EventProgress, JobID: "j", Message: "half\n12:00:00.000  job.completed  " + evil},
		{Kind: v1.EventClaimed, JobID: evil, Type: evil, WorkerID: &worker, Error: evil, Name: evil},
	} {
		if err := showEvent(g, e); err != nil {
			t.Fatal(err)
		}
	}
	harmless(t, "events", out.String())
	if strings.Count(out.String(), "\n") != 2 || !strings.Contains(out.String(), `half\n12:00`) || !strings.Contains(out.String(), "on w"+evilShown) {
		t.Errorf("%s", out.String())
	}
}

// The cluster keeps payloads as they are, also with a name that occurs twice.
func TestJSONOfOddPayloads(t *testing.T) {
	var out strings.Builder
	g := &view.Globals{Out: &out}
	if err := g.WriteJSON(v1.Job{ID: "j", Payload: []byte(`{"a":1,"a":2}`)}); err != nil || !strings.Contains(out.String(), `"payload":{"a":1,"a":2}`) {
		t.Errorf("%s, %v", out.String(), err)
	}
}
