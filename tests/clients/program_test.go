package clients

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/tests/cluster"
)

// program calls a client as a program, against the nodes of c.
func (l language) program(t *testing.T, dir string, c *cluster.Cluster, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	command := append([]string{l.interpreter, filepath.Base(l.client)}, args...)
	stdout, stderr, err := attempt(t, dir, []string{servers(c)}, command...)
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if exit != nil {
		status = exit.ExitCode()
	}
	return strings.TrimSpace(stdout), stderr, status
}

// The exit status of wait equals that of "osqueue job wait". The handlers of the worker, which
// is the same program, use the exported functions of the client.
func TestProgramWaits(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		dir := l.desk(t)
		tasks, spec := "from osqueue import Failure\ndef broken(job):\n    raise Failure('no luck', retryable=False)\n", "bad=tasks:broken"
		if l.name == "js" {
			tasks = "import { Failure } from './osqueue.mjs';\nexport default () => { throw new Failure('no luck', { retryable: false }); };\n"
			spec = "bad=tasks.mjs"
		}
		if err := os.WriteFile(filepath.Join(dir, "tasks"+l.extension), []byte(tasks), 0o600); err != nil {
			t.Fatal(err)
		}
		start(t, "worker", dir, []string{servers(c)}, l.interpreter, filepath.Base(l.client), "worker", spec)
		for kind, want := range map[string]string{"bad": "dead", "other": "cancelled"} {
			id, _, _ := l.program(t, dir, c, "submit", kind)
			if kind == "other" {
				l.program(t, dir, c, "cancel", id)
			}
			stdout, stderr, status := l.program(t, dir, c, "wait", id, "60"+map[string]string{"js": "000"}[l.name])
			job := object(t, stdout)
			if job["status"] != want || status != 1 || !strings.Contains(stderr, "osqueue: job "+id+" is "+want) {
				t.Errorf("wait for a job that is %s: status %d, %s%s", want, status, stdout, stderr)
			}
			if kind == "bad" && (job["attempts"] != 1.0 || !strings.Contains(stderr, "no luck")) {
				t.Errorf("the job that fails: %s%s", stdout, stderr)
			}
		}
	})
}

// If its arguments are wrong, the program reports this in a few lines and does nothing else.
func TestProgramIsUsedWrongly(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{Nodes: 1})
		dir := l.desk(t)
		for line, want := range map[string]struct {
			status int
			text   string
		}{
			"":                                {2, "submit TYPE [JSON]"},
			"--help":                          {2, "submit TYPE [JSON]"},
			"submit":                          {2, "submit TYPE [JSON]"},
			"submit wc 1 2":                   {2, "submit TYPE [JSON]"},
			"wait":                            {2, "submit TYPE [JSON]"},
			"stats now":                       {2, "submit TYPE [JSON]"},
			"worker":                          {2, "submit TYPE [JSON]"},
			"submit wc three":                 {1, "JSON"},
			"worker wc":                       {1, "osqueue: wc="},
			"worker wc=nowhere":               {1, "nowhere"},
			"worker wc=osqueue" + l.extension: {1, "osqueue: wc=osqueue"},
		} {
			stdout, stderr, status := l.program(t, dir, c, strings.Fields(line)...)
			if status != want.status || stdout != "" || !strings.Contains(stderr, want.text) || strings.Count(stderr, "\n") > 8 {
				t.Errorf("%q: status %d, %s%s", line, status, stdout, stderr)
			}
		}
		if out, _, _ := l.program(t, dir, c, "stats"); object(t, out)["total"] != 0.0 {
			t.Errorf("jobs were added: %s", out)
		}
	})
}
