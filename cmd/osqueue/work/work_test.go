package work

import (
	"bytes"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunHelper()
	goleak.VerifyTestMain(m)
}

var osq = clitest.Tree(Commands)

func TestReadHeaderFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "headers")
	for text, want := range map[string]string{
		"# for the service\n\nAuthorization: Bearer s3cret\r\nX-A: 1\nX-A: 2\n": "",
		"Authorization Bearer s3cret":                                           "line 1",
		"A: b\nno name: s3cret":                                                 "line 2",
		"A: s3cret\x01":                                                         "line 1",
		strings.Repeat("A: s3cret\n", 10_000):                                   "at most",
	} {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		h, err := readHeaderFile(path)
		if want == "" {
			if err != nil || h.Get("authorization") != "Bearer s3cret" || len(h["X-A"]) != 2 {
				t.Errorf("%v, %v", h, err)
			}
		} else if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%.40q: %v", text, err)
		}
	}
}

func TestRedacted(t *testing.T) {
	if got := redacted("http://u:s3cret@h/p?key=s3cret"); strings.Contains(got, "s3cret") || !strings.Contains(got, "h/p") {
		t.Error(got)
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
	clitest.Harmless(t, "worker", got.Out+got.Err)
	for _, want := range []string{`exit status 4: \x00(×1000)end` + "\n", `exit status 4: \x1b]0;mine\a \u009b` + "\n"} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if reason := q.All()[1].LastError; !strings.Contains(reason, "\x1b]0;mine\a \u009b") {
		t.Errorf("%q", reason)
	}
}

// The log of a worker quotes errors of jobs, and shows their controls.
func TestLogLinesDoNotCommandTheTerminal(t *testing.T) {
	var out bytes.Buffer
	log := newLog(&out, false)
	log.Debug("hidden")
	log.Warn("refused", "job", clitest.Evil, "error", fmt.Errorf("%s\nsecond %s", clitest.Evil, clitest.Evil), "jobs", []string{clitest.Evil})
	clitest.Harmless(t, "log", out.String())
	if got := out.String(); !strings.Contains(got, `\x1b[2Jevil`) || strings.Contains(got, "hidden") {
		t.Errorf("%s", got)
	}
}

// A worker says at its start that no node answers, or that its name is taken.
func TestWorkerGreets(t *testing.T) {
	greeted := func(server, name string) string {
		t.Helper()
		c, err := client.New(client.Config{Servers: []string{server}})
		check(t, err)
		defer c.Close()
		var log strings.Builder
		greet(t.Context(), c, name, newLog(&log, false))
		return log.String()
	}
	q := clitest.NewFake(t)
	if got := greeted(q.Server.URL, "w1"); !strings.Contains(got, "a worker with this name sent a heartbeat") {
		t.Error(got)
	}
	for _, quiet := range []v1.Problem{
		{Status: 404, Tag: v1.TagNotFound, Detail: "no such worker"},
		{Status: 403, Tag: v1.TagForbidden, Detail: "the token has the role worker"},
	} {
		q.Refuse = func(*http.Request) *v1.Problem { return &quiet }
		if got := greeted(q.Server.URL, "w1"); got != "" {
			t.Errorf("%s: %s", quiet.Tag, got)
		}
	}
	q.Server.Close()
	if got := greeted(q.Server.URL, "w1"); !strings.Contains(got, "no node has answered yet") || !strings.Contains(got, strings.ReplaceAll(view.StartHint, `"`, `\"`)) {
		t.Error(got)
	}
}

// TestWorkerFileHasLongSpans: the worker's file has days and weeks as flags do, and names the line of a bad value.
func TestWorkerFileHasLongSpans(t *testing.T) {
	path := filepath.Join(t.TempDir(), "worker.yaml")
	read := func(text string) (*workerFlags, error) {
		check(t, os.WriteFile(path, []byte(text), 0o600))
		f := &workerFlags{}
		newFlags(t, f)
		fields, err := view.ReadFields(path)
		check(t, err)
		return f, f.readFields(fields)
	}
	f, err := read("lease: 1d\nstop-timeout: 1w\nlimits: {time: 1d12h, memory: 1GiB}\njobs: [{type: a, http: http://x, timeout: 2d}]\n")
	if err != nil || f.lease != view.Day || f.stopTimeout != 7*view.Day || f.limits.Timeout != 36*time.Hour || f.limits.Memory != 1<<30 || f.jobs[0].Timeout != 2*view.Day {
		t.Errorf("%+v, %v", f, err)
	}
	_, err = read("name: w\nlease: 1 day\nlimits:\n  memory: big\n")
	if err == nil || !strings.Contains(err.Error(), `line 2: lease: "1 day" is not a duration`) || !strings.Contains(err.Error(), `line 4: limit-memory: "big" is not a size`) {
		t.Error(err)
	}
}

// A worker runs programs of payloads only for types that the nodes protect.
func TestWorkerAsksWhichTypesRunPrograms(t *testing.T) {
	q := clitest.NewFake(t)
	q.Self = v1.Self{Security: "on", ID: "t", ProgramTypes: []string{"command", "py*"}}
	for _, flags := range [][]string{{"--commands", "deploy"}, {"--python", "*"}, {"--commands", "command", "--python", "deploy"}} {
		got := osq.Run(t, q, "", append([]string{"worker", "--sandbox", "none"}, flags...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, "--program-types command,py*,") {
			t.Errorf("%v: %+v", flags, got)
		}
	}
	c, err := client.New(client.Config{Servers: []string{q.Server.URL}})
	check(t, err)
	defer c.Close()
	jobs := []workerJob{{Type: "python", Python: true}, {Type: "command", Commands: true}, {Type: "*", Exec: "cat"}}
	if err := checkPrograms(t.Context(), c, jobs); err != nil {
		t.Error(err)
	}
	q.Self = v1.Self{Security: "off"}
	if err := checkPrograms(t.Context(), c, []workerJob{{Type: "deploy", Commands: true}}); err != nil {
		t.Error(err)
	}
}
