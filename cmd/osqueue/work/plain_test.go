package work

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/hashicorp/go-hclog"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
)

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

// The log of a worker quotes errors of jobs; hclog shows their controls itself.
func TestLogLinesDoNotCommandTheTerminal(t *testing.T) {
	var out bytes.Buffer
	log := hclog.New(&hclog.LoggerOptions{Name: "worker", Output: &out})
	log.Warn("refused", "job", clitest.Evil, "error", fmt.Errorf("%s\nsecond %s", clitest.Evil, clitest.Evil), "jobs", []string{clitest.Evil})
	clitest.Harmless(t, "log", out.String())
	if !strings.Contains(out.String(), `\x1b[2Jevil`) {
		t.Errorf("%s", out.String())
	}
}
