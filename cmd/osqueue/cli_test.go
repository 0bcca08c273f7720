package main

import (
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestNoClusterSaysWhatWasTriedAndWhatToDo(t *testing.T) {
	c := osq.Command(t, "127.0.0.1:1", "127.0.0.1:2")
	got := c.Run("job", "show", "j", "--timeout", "300ms")
	for _, want := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2", "connection refused", "osqueue dev", "--servers"} {
		if !strings.Contains(got.Err, want) {
			t.Errorf("%q does not say %q", got.Err, want)
		}
	}
	if got.Code != view.ExitFailure || got.Out != "" {
		t.Errorf("%+v", got)
	}
	c = osq.Command(t, "127.0.0.1:1")
	got = c.Run("job", "show", "j", "--timeout", "200ms", "--json")
	if !strings.HasPrefix(got.Err, `{"error":`) || !strings.Contains(got.Err, `"tried":[{"server":"http://127.0.0.1:1"`) {
		t.Errorf("%s", got.Err)
	}
}

func TestWrongUse(t *testing.T) {
	q := clitest.NewFake(t)
	for _, line := range []string{
		"job get", "job get a b c", "job show a b", "job get a --nonsense", "job get a --timeout 0", "job list --limit 0", "job list extra",
		"submit a b c", "submit --type a 1 2", "submit a {", "submit a 1 --file x", "submit --text --file -",
		"submit a --delay -1s", "submit a --wait-for 0", "submit a --priority high", "submit a --delay 1s --run-at 1h",
		"submit a --run-at soon", "submit a --run-at 2026-13-01", "submit a --backoff quick", "submit a --backoff fixed",
		"submit a --backoff fixed:0s", "submit a --backoff none:1s", "submit a --backoff linear:1s:2s:3s",
		"submit a --backoff exponential:1s:1h:101%", "submit a --unique :active", "submit a --unique k:period",
		"submit a --unique k:period:soon", "submit a --unique k --file -", "submit a --after-failure hope",
		"submit a --job-timeout -1s", "--timeout 0 submit a", "--timeout x submit a", "submit a --max-attempts -1", "submit a --timeout 0",
		"job wait", "job wait a --wait-for 0", "submit", "submit 1 --type", "submit --text --file -", "submit a --max-attempts 0", "job cancel", "job cancel a --type b", "job cancel a --limit 1",
		"job cancel --type a", "job cancel --all --type a --yes", "job cancel --status dead --yes",
		"job retry --status completed --yes", "job delete --status in_progress --yes", "job delete --all --limit -1 --yes",
		"job ls --created-after yesterday", "dead retry", "dead rm --all", "dead ls --status completed", "dead nonsense",
		"queue show", "queue set a", "queue set a --max-running 5", "limit set", "limit set a --rate fast", "limit set a --rate 0/s", "limit set a --running 0", "limit set a --burst 2",
		"limit set type:* --running 1", "limit set group:a --rate 1/s", "limit rm type:*", "limit rm", "limit show", "limit hold a", "limit hold a --for soon", "limit hold type:a --for 1m",
		"queue set a --max-bytes big", "queue set a --lease 0s", "queue set a --backoff soon", "queue set a --retain -1h",
		"queue purge a", "queue pause", "queue reset",
		"cron put a", "cron put a @daily", "batch create --callback-on completed", "cron put a @daily --type a --payload {", "cron put a @daily --type a --overlap maybe", "cron put a @daily --type a --missed some",
		"cron put a @daily --type a --start soon", "cron put a @daily --type a --end -1h", "cron put a @daily --type a --jitter -1s", "cron put a @daily --type a --max -1", "cron runs",
		"cron put a @daily --type a --lease -1s", "cron rm", "cron trigger a b",
		"batch create a b", "batch create - --text", "batch create - --callback-on never", "batch create - --unique a",
		"batch create - --callback-type a --callback-payload {", "batch cancel a", "batch show",
		"events --kind job.nonsense", "events --limit -1", "events extra", "stats extra", "worker ls extra", "worker show",
		"ui --bucket file:///x --address 10.0.0.1:80", "inspect file:///x id", "inspect file:///x --history --at 1h",
		"status a b", "status --servers ftp://x", "status ?",
		"run", "run --type x", "run --env =x -- true", "run --wait-for -1s -- true", "run --max-attempts -1 -- true", "run --attempts 1 -- true",
		"map", "map x", "map -", "map - --", "map -- true", "map a b -- true", "map - true", "map - -n 0 -- true",
		"map - --wait-for -1s -- true", "map - --unique k -- true", "map - --env = -- true",
		"worker", "worker --exec wc", "worker --exec =wc", "worker --exec a=", "worker --exec a=no-such-program-here",
		"worker --exec a=true --exec a=true", "worker --exec a=true --concurrency -1", "worker --exec a=true --concurrency 0", "worker --exec a=true --lease -1s",
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		if got.Code != view.ExitUsage || !strings.HasPrefix(got.Err, "osqueue: ") || len(got.Err) < 20 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if n := len(q.All()); n != 0 {
		t.Errorf("%d jobs were enqueued", n)
	}
}

func TestServersFromFlagBeatTheEnvironment(t *testing.T) {
	q := clitest.NewFake(t)
	c := osq.Command(t, "127.0.0.1:1")
	if got := c.Run("status", "--servers", strings.TrimPrefix(q.Server.URL, "http://")); got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
	g := &view.Globals{Getenv: func(string) string { return "" }}
	root := &cobra.Command{}
	g.Bind(root.PersistentFlags())
	if got, err := g.Resolve(); err != nil || strings.Join(got.Servers, ",") != view.DefaultServers {
		t.Errorf("default: %+v, %v", got, err)
	}
}

func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		nil: view.ExitOK, errors.New("x"): view.ExitFailure, view.SilentError{}: view.ExitFailure, view.Usagef("x"): view.ExitUsage, &client.Error{}: view.ExitFailure,
	} {
		if got := view.ExitCode(err); got != want {
			t.Errorf("%v: %d", err, got)
		}
	}
}

func TestHelpTellsTheExitStatus(t *testing.T) {
	n := 0
	root := &cobra.Command{Use: "osqueue"}
	root.AddCommand(commands(view.NewGlobals("devel"))...)
	for _, cmd := range all(root) {
		line := strings.Fields(cmd.CommandPath())[1:]
		got := osq.Command(t, "127.0.0.1:1").Run(append(line, "--help")...)
		silent := cmd.Name() == "version"
		exit := view.ExitHelp
		if cmd.Name() == "run" || cmd.Name() == "map" {
			exit = "Exit status: " // they have more of them
		}
		if !silent && !strings.Contains(got.Out, exit) {
			t.Errorf("%s: %s", line, got.Out)
		}
		for _, text := range strings.Split(got.Out, "\n") {
			if !strings.HasPrefix(strings.TrimSpace(text), "-") && len([]rune(text)) > 120 {
				t.Errorf("%s: a line of %d characters: %s", line, len([]rune(text)), text)
			}
		}
		n++
	}
	if n < 40 {
		t.Errorf("only %d commands", n)
	}
}

// all are the commands below parent, and those below them.
func all(parent *cobra.Command) []*cobra.Command {
	var found []*cobra.Command
	for _, cmd := range parent.Commands() {
		found = append(append(found, cmd), all(cmd)...)
	}
	return found
}

// brokenPipe refuses to be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailedOutputIsAFailure(t *testing.T) {
	q := clitest.NewFake(t)
	q.Add(v1.NewJob{ID: "j", Payload: []byte("1")})
	for _, line := range []string{
		"submit a 1", "submit a 1 --json", "submit a --file -", "submit a 1 --wait", "submit a --file - --wait", "run -- echo x", "run --json -- echo x", "map - -- echo x", "map - --json -- echo x", "job list", "job list --json", "job list --all", "status", "status --json",
		"job wait j", "job wait j j", "job delete j", "job cancel --all --yes", "queue ls", "queue pause a", "cron ls", "cron trigger a", "batch ls", "batch create", "stats", "worker ls", "events --limit 1",
	} {
		g := &view.Globals{In: strings.NewReader("1\n"), Out: brokenPipe{}, Err: io.Discard, Getenv: func(name string) string {
			if name == "OSQUEUE_SERVERS" {
				return q.Server.URL
			}
			return ""
		}}
		root := &cobra.Command{Use: "osqueue", SilenceErrors: true, SilenceUsage: true}
		g.Bind(root.PersistentFlags())
		root.AddCommand(commands(g)...)
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
