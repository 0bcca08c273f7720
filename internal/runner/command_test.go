//go:build unix

package runner

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

func mustCommand(t *testing.T, line string) worker.HandlerFunc {
	t.Helper()
	fn, err := Command(line)
	if err != nil {
		t.Fatalf("Command(%q): %v", line, err)
	}
	return fn
}

// failureOf returns the failure that a worker reports for a handler's error.
func failureOf(err error) client.Failure {
	fails := func(context.Context, worker.Job) (json.RawMessage, error) { return nil, err }
	return worker.Try(context.Background(), fails, client.ClaimedJob{}).Failure
}

// pause waits for d, or until ctx ends.
func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func TestCommandResult(t *testing.T) {
	cases := []struct{ name, line, payload, want string }{
		{"payload on stdin", "cat", `{"a":[1, 2]}`, `{"a":[1, 2]}`},
		{"number", "wc -w", "one two three", "3"},
		{"text", "printf '%s\\n' 'hello there'", "", `"hello there"`},
		{"text keeps its inner lines", `printf 'a\n\nb\n'`, "", `"a\n\nb"`},
		{"nothing", "true", "", ""},
		{"blank", `printf ' \n'`, "", ""},
		{"stdin unread", "echo 7", strings.Repeat("x", 1<<20), "7"},
		{"not UTF-8", `printf 'a\377b'`, "", "\"a\uFFFDb\""},
		{"repeated names", "cat", `{"a":1,"a":2}`, `{"a":1,"a":2}`},
		{"lone surrogate", "cat", `"\ud800"`, `"\ud800"`},
		{"quotes", `printf '[%s]' "a b" c`, "", `"[a b][c]"`},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			got, err := mustCommand(t, c.line)(bounded(t), worker.Job{ClaimedJob: client.ClaimedJob{Payload: json.RawMessage(c.payload)}})
			if err != nil || string(got) != c.want {
				t.Fatalf("got %s, %v; want %s", got, err, c.want)
			}
		})
	}
}

// If a command succeeds, its stderr becomes the attempt's log. If it fails, the error
// contains the stderr, and the log does not repeat it.
func TestCommandLog(t *testing.T) {
	python, err := Python(plainBox(t), "")
	check(t, err)
	prints := json.RawMessage(`{"code":"def f(): print('by print')","function":"f"}`)
	for name, c := range map[string]struct {
		fn      worker.HandlerFunc
		payload json.RawMessage
		want    string
	}{
		"command":        {mustCommand(t, `sh -c 'echo 1; echo warned >&2'`), nil, "warned"},
		"silent command": {mustCommand(t, `true`), nil, ""},
		"failed command": {mustCommand(t, `sh -c 'echo warned >&2; exit 1'`), nil, ""},
		"Python":         {python, prints, "by print"},
	} {
		t.Run(name, func(t *testing.T) {
			got := worker.Try(bounded(t), c.fn, client.ClaimedJob{Payload: c.payload})
			if got.Log != c.want || (got.Outcome == worker.Failed) != (name == "failed command") {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestCommandEnvironment(t *testing.T) {
	job := worker.Job{ClaimedJob: client.ClaimedJob{ID: "j1", Type: "a type", Attempt: 2, Token: 4294967297}}
	t.Setenv("OSQUEUE_TEST_OWN", "own")
	t.Setenv("OSQUEUE_TOKEN", "of the worker")
	lines := []string{
		`sh -c 'printf "%s|%s|%s|%s|%s" "$OSQUEUE_JOB_ID" "$OSQUEUE_JOB_TYPE" "$OSQUEUE_ATTEMPT" "$OSQUEUE_FENCING_TOKEN" "$OSQUEUE_TEST_OWN"'`,
		`printf '%s|%s|%s|%s|%s' $OSQUEUE_JOB_ID "$OSQUEUE_JOB_TYPE" $OSQUEUE_ATTEMPT $OSQUEUE_FENCING_TOKEN $OSQUEUE_TEST_OWN`,
	}
	for _, line := range lines {
		got, err := mustCommand(t, line)(bounded(t), job)
		if want := `"j1|a type|2|4294967297|own"`; err != nil || string(got) != want {
			t.Fatalf("%s: got %s, %v; want %s", line, got, err, want)
		}
	}
	if got, err := mustCommand(t, `sh -c 'printf "%s" "$OSQUEUE_TOKEN"'`)(bounded(t), job); err != nil || len(got) != 0 {
		t.Errorf("the job has the token %s of the worker, %v", got, err)
	}
}

// An attempt that is ended from outside says so, and then what its command had to say.
func TestLogOfACommandThatIsEnded(t *testing.T) {
	python, err := Python(plainBox(t), "")
	check(t, err)
	for name, c := range map[string]struct {
		fn      worker.HandlerFunc
		payload string
	}{
		"command":  {mustCommand(t, `sh -c 'echo warned >&2; touch "$1"; sleep 100' sh {{.file}}`), `{"file":%q}`},
		"commands": {Commands(plainBox(t)), `{"argv":["sh","-c","echo warned >&2; touch \"$0\"; sleep 100",%q]}`},
		"Python": {python, `{"code":"def f(p):\n print('warned', flush=True)\n open(p, 'w')\n ` +
			`import time; time.sleep(100)","function":"f","args":[%q]}`},
	} {
		for _, cause := range []error{worker.ErrCancelled, worker.ErrTimeout} {
			t.Run(name+" "+cause.Error(), func(t *testing.T) {
				ctx, end := context.WithCancelCause(bounded(t))
				file := filepath.Join(t.TempDir(), "began")
				var ended sync.WaitGroup
				ended.Go(func() {
					for ctx.Err() == nil {
						if _, err := os.Stat(file); err == nil {
							end(cause)
						}
						pause(ctx, time.Millisecond)
					}
				})
				got := worker.Try(ctx, c.fn, payloadJob(fmt.Sprintf(c.payload, file)).ClaimedJob)
				end(nil)
				ended.Wait()
				if got.Failure.Error != cause.Error()+": warned" {
					t.Errorf("the failure is %q", got.Failure.Error)
				}
			})
		}
	}
}

// Variables are expanded when the job runs. An unset variable differs from an empty one.
func TestCommandVariables(t *testing.T) {
	t.Setenv("OSQUEUE_TEST_OWN", "first")
	run, err := Command(`printf '[%s]' fixed ${OSQUEUE_TEST_OWN-none} ${OSQUEUE_TEST_NONE-none} "$OSQUEUE_TEST_OWN x"`)
	check(t, err)
	for value, want := range map[string]string{
		"second": `"[fixed][second][none][second x]"`,
		"":       `"[fixed][none][ x]"`,
		"a b":    `"[fixed][a][b][none][a b x]"`,
	} {
		t.Setenv("OSQUEUE_TEST_OWN", value)
		if got, err := run(t.Context(), payloadJob(`{}`)); err != nil || string(got) != want {
			t.Errorf("with %q: %s %v, want %s", value, got, err, want)
		}
	}
}

// A program that has moved to another directory of the path is found there.
func TestCommandFindsAProgramThatMoved(t *testing.T) {
	one, two := t.TempDir(), t.TempDir()
	t.Setenv("PATH", one+":"+two+":"+os.Getenv("PATH"))
	check(t, os.WriteFile(filepath.Join(one, "osq-moves"), []byte("#!/bin/sh\necho \"$0\"\n"), 0o755))
	run, err := Command("osq-moves")
	check(t, err)
	for _, dir := range []string{one, two} {
		if got, err := run(t.Context(), payloadJob(`{}`)); err != nil || string(got) != `"`+dir+`/osq-moves"` {
			t.Errorf("%s %v, want that in %s", got, err, dir)
		}
		_ = os.Rename(filepath.Join(one, "osq-moves"), filepath.Join(two, "osq-moves"))
	}
}

func TestCommandRefusesWhatNeedsAShell(t *testing.T) {
	for _, line := range []string{"", "  ", "echo 'open", "echo a | wc", "echo a > b", "echo $(date)", "osqueue-no-such-program"} {
		if _, err := Command(line); err == nil {
			t.Errorf("Command(%q) was taken", line)
		}
	}
}

func TestCommandFailureQuotesStderr(t *testing.T) {
	_, err := mustCommand(t, `sh -c 'echo out; echo "went wrong" >&2; exit 3'`)(bounded(t), worker.Job{})
	if err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "went wrong") {
		t.Fatalf("got %v", err)
	}
}

func TestCommandFailureQuotesOnlyTheEndOfStderr(t *testing.T) {
	_, err := mustCommand(t, `sh -c 'i=0; while [ $i -lt 3000 ]; do echo "line $i" >&2; i=$((i+1)); done; exit 1'`)(bounded(t), worker.Job{})
	if err == nil || !strings.Contains(err.Error(), "line 2999") || strings.Contains(err.Error(), "line 1000\n") {
		t.Fatalf("got %v", err)
	}
	if len(err.Error()) > sandbox.DefaultLimits().Log+100 {
		t.Fatalf("the error has %d bytes", len(err.Error()))
	}
}

func TestCommandOutputIsBounded(t *testing.T) {
	_, err := mustCommand(t, "cat /dev/zero")(bounded(t), worker.Job{})
	if !errors.Is(err, sandbox.ErrOutput) {
		t.Fatalf("got %v", err)
	}
}

// The program starts another one, and neither ends by itself: both must be
// gone when the context ends, even the one that ignores SIGTERM.
func TestCommandEndTakesTheWholeGroup(t *testing.T) {
	for name, trap := range map[string]string{"obeying": "", "ignoring SIGTERM": `trap "" TERM; `} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "pids")
			line := fmt.Sprintf(`sh -c '%ssleep 600 & echo $$ $! > %s.tmp; mv %s.tmp %s; wait; sleep 600'`, trap, file, file, file)
			ctx, cancel := context.WithCancelCause(bounded(t))
			ended := make(chan error, 1)
			go func() {
				_, err := mustCommand(t, line)(ctx, worker.Job{})
				ended <- err
			}()
			pids := awaitPids(ctx, t, file)
			cancel(worker.ErrLeaseLost)
			if err := <-ended; !errors.Is(err, worker.ErrLeaseLost) {
				t.Fatalf("got %v", err)
			}
			for _, pid := range pids {
				awaitGone(t, pid)
			}
		})
	}
}

// A process that is left behind and holds stdout must not hold the job.
func TestCommandLeftBehindHoldsNothing(t *testing.T) {
	file := filepath.Join(t.TempDir(), "pids")
	line := fmt.Sprintf(`sh -c 'sleep 600 & echo $! > %s; echo 5'`, file)
	began := time.Now()
	_, err := mustCommand(t, line)(bounded(t), worker.Job{})
	if err == nil {
		t.Fatal("a result that may be cut was taken for whole")
	}
	if took := time.Since(began); took > 10*time.Second {
		t.Fatalf("took %v", took)
	}
	awaitGone(t, awaitPids(bounded(t), t, file)[0])
}

func awaitPids(ctx context.Context, t *testing.T, file string) (pids []int) {
	t.Helper()
	for ctx.Err() == nil {
		text, err := os.ReadFile(file)
		if err != nil {
			pause(ctx, 5*time.Millisecond)
			continue
		}
		for _, field := range strings.Fields(string(text)) {
			pid, err := strconv.Atoi(field)
			check(t, err)
			pids = append(pids, pid)
		}
		return pids
	}
	t.Fatal("the command did not start")
	return nil
}

// awaitGone waits until pid has ended. A zombie counts as ended: in a container, no
// process may reap it.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	ctx := bounded(t)
	for ctx.Err() == nil {
		if syscall.Kill(pid, 0) != nil || zombie(pid) {
			return
		}
		pause(ctx, 5*time.Millisecond)
	}
	t.Fatalf("process %d lives on", pid)
}

func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return strings.HasPrefix(rest, "Z")
}
