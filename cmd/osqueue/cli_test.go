package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"osqueue/client"
)

// runMain is the environment variable that makes the test binary the program
// itself, for the tests that need processes.
const runMain = "OSQUEUE_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) != "" {
		main()
	}
	goleak.VerifyTestMain(m)
}

// ended is what became of a command line.
type ended struct {
	out, err string
	code     int
}

// command is a command line to be run against a queueFake, or none.
type command struct {
	t     *testing.T
	ctx   context.Context
	stdin io.Reader
	env   map[string]string
	out   *safeBuffer
	err   *safeBuffer
}

func newCommand(t *testing.T, servers ...string) *command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return &command{
		t: t, ctx: ctx, out: &safeBuffer{}, err: &safeBuffer{},
		env: map[string]string{"OSQUEUE_SERVERS": strings.Join(servers, ",")},
	}
}

func (c *command) run(args ...string) ended {
	c.t.Helper()
	g := &globals{stdin: c.stdin, stdout: c.out, stderr: c.err, getenv: func(name string) string { return c.env[name] }}
	root := &cobra.Command{Use: "osqueue", SilenceErrors: true, SilenceUsage: true}
	g.bind(root.PersistentFlags())
	root.SetFlagErrorFunc(usageFlags)
	root.AddCommand(newWorkerCommand(g), newSubmitCommand(g), newJobCommand(g), newStatusCommand(g))
	root.SetOut(c.out)
	root.SetArgs(args)
	err := root.ExecuteContext(c.ctx)
	g.printError(err)
	return ended{out: c.out.String(), err: c.err.String(), code: exitCode(err)}
}

// osq runs a command line with a short stdin.
func osq(t *testing.T, q *queueFake, stdin string, args ...string) ended {
	t.Helper()
	c := newCommand(t, q.srv.URL)
	if stdin != "" {
		c.stdin = strings.NewReader(stdin)
	}
	return c.run(args...)
}

// safeBuffer is a buffer that a command writes while its test reads.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

func TestNoClusterSaysWhatWasTriedAndWhatToDo(t *testing.T) {
	c := newCommand(t, "127.0.0.1:1", "127.0.0.1:2")
	got := c.run("job", "get", "j", "--timeout", "300ms")
	for _, want := range []string{"http://127.0.0.1:1", "http://127.0.0.1:2", "connection refused", "osqueue dev", "--servers"} {
		if !strings.Contains(got.err, want) {
			t.Errorf("%q does not say %q", got.err, want)
		}
	}
	if got.code != exitFailure || got.out != "" {
		t.Errorf("%+v", got)
	}
	c = newCommand(t, "127.0.0.1:1")
	got = c.run("job", "get", "j", "--timeout", "200ms", "--json")
	if !strings.HasPrefix(got.err, `{"error":`) || !strings.Contains(got.err, `"tried":[{"server":"http://127.0.0.1:1"`) {
		t.Errorf("%s", got.err)
	}
}

func TestWrongUse(t *testing.T) {
	q := newQueueFake(t)
	for _, line := range []string{
		"job get", "job get a b", "job get a --nonsense", "job get a --timeout 0", "job list --limit 0", "job list extra",
		"submit a b c", "submit --type a 1 2", "submit a {", "submit a 1 --file x", "submit --text --file -",
		"submit a --delay -1s", "submit a --wait-for 0", "submit a --priority high",
		"status a b", "status --servers ftp://x", "status ?",
		"worker", "worker --exec wc", "worker --exec =wc", "worker --exec a=", "worker --exec a=no-such-program-here",
		"worker --exec a=true --exec a=true", "worker --exec a=true --concurrency -1", "worker --exec a=true --lease -1s",
	} {
		got := osq(t, q, "", strings.Fields(line)...)
		if got.code != exitUsage || !strings.HasPrefix(got.err, "osqueue: ") || len(got.err) < 20 {
			t.Errorf("%s: %+v", line, got)
		}
	}
	if n := len(q.all()); n != 0 {
		t.Errorf("%d jobs were enqueued", n)
	}
}

func TestServersFromFlagBeatTheEnvironment(t *testing.T) {
	q := newQueueFake(t)
	c := newCommand(t, "127.0.0.1:1")
	if got := c.run("status", "--servers", strings.TrimPrefix(q.srv.URL, "http://")); got.code != exitOK {
		t.Errorf("%+v", got)
	}
	g := &globals{getenv: func(string) string { return "" }}
	root := &cobra.Command{}
	g.bind(root.PersistentFlags())
	if got := strings.Join(g.servers, ","); got != defaultServers {
		t.Errorf("default: %s", got)
	}
}

func TestExitCodes(t *testing.T) {
	for err, want := range map[error]int{
		nil: exitOK, errors.New("x"): exitFailure, silentError{}: exitFailure, usagef("x"): exitUsage, &client.Error{}: exitFailure,
	} {
		if got := exitCode(err); got != want {
			t.Errorf("%v: %d", err, got)
		}
	}
}

func TestHelpTellsTheExitStatus(t *testing.T) {
	for _, line := range []string{"worker", "submit", "job", "job get", "job list", "status"} {
		c := newCommand(t, "127.0.0.1:1")
		if got := c.run(append(strings.Fields(line), "--help")...); !strings.Contains(got.out, exitHelp) {
			t.Errorf("%s: %s", line, got.out)
		}
	}
}

// brokenPipe refuses to be written to.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestFailedOutputIsAFailure(t *testing.T) {
	q := newQueueFake(t)
	for _, line := range []string{"submit a 1", "submit a 1 --json", "submit a --file -", "submit a 1 --wait", "submit a --file - --wait", "job list", "job list --json", "job list --all", "status", "status --json"} {
		g := &globals{stdin: strings.NewReader("1\n"), stdout: brokenPipe{}, stderr: io.Discard, getenv: func(string) string { return q.srv.URL }}
		root := &cobra.Command{Use: "osqueue", SilenceErrors: true, SilenceUsage: true}
		g.bind(root.PersistentFlags())
		root.AddCommand(newSubmitCommand(g), newJobCommand(g), newStatusCommand(g))
		root.SetArgs(strings.Fields(line))
		if err := root.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "broken pipe") {
			t.Errorf("%s: %v", line, err)
		}
	}
}
