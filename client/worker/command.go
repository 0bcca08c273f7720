package worker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// The bounds of a command.
const (
	// MaxCommandOutput is how many bytes of stdout a command may write. The
	// result has to fit into a request of 1 MiB, also as a JSON string.
	MaxCommandOutput = 512 << 10
	// commandErrorTail is how much of the end of stderr a failure quotes.
	commandErrorTail = 4 << 10
	// commandKillDelay is what a command gets between SIGTERM and SIGKILL.
	commandKillDelay = 2 * time.Second
	// startPause keeps a job back whose program this machine does not have, so
	// that it does not use all its attempts here in a moment.
	startPause = 10 * time.Second
)

// Command returns a handler that runs a program for each job: the payload on
// its stdin, its stdout the result. Stdout that is JSON becomes the result as
// it is, other text a JSON string without its last line break, nothing no
// result. An exit status other than 0 is a failure that quotes the end of
// stderr. When the context ends, the program and the processes it has started
// (its process group) get SIGTERM, and SIGKILL two seconds later.
//
// The line is split into words, and its variables expanded, as a POSIX shell
// would; there is no shell, so no pipes and no redirections: for these write
// sh -c '…'. The environment is that of the worker and OSQUEUE_JOB_ID,
// OSQUEUE_JOB_TYPE, OSQUEUE_ATTEMPT and OSQUEUE_TOKEN (the fencing token of
// the claim).
func Command(line string) (HandlerFunc, error) {
	words, err := parseLine(line)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, job Job) (jsontext.Value, error) {
		return runCommand(ctx, words, job)
	}, nil
}

// parseLine splits a command line. What only a shell can do is an error.
func parseLine(line string) ([]*syntax.Word, error) {
	var words []*syntax.Word
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).WordsSeq(strings.NewReader(line)) {
		if err != nil {
			return nil, fmt.Errorf("command %q cannot be split into words (%w); quote it, or write sh -c '…'", line, err)
		}
		words = append(words, w)
	}
	if len(words) == 0 {
		return nil, errors.New("the command is empty")
	}
	if _, err := expandLine(words, os.Environ()); err != nil {
		return nil, fmt.Errorf("command %q: %w", line, err)
	}
	if program := words[0].Lit(); program != "" {
		if _, err := exec.LookPath(program); err != nil {
			return nil, fmt.Errorf("command %q: %w", line, err)
		}
	}
	return words, nil
}

func expandLine(words []*syntax.Word, env []string) ([]string, error) {
	args, err := expand.Fields(&expand.Config{Env: expand.ListEnviron(env...)}, words...)
	if err != nil {
		return nil, fmt.Errorf("expand (for $(…) write sh -c '…'): %w", err)
	}
	return args, nil
}

func runCommand(ctx context.Context, words []*syntax.Word, job Job) (jsontext.Value, error) {
	env := append(os.Environ(), jobEnv(job)...)
	args, err := expandLine(words, env)
	if err != nil {
		return nil, Permanent(err)
	}
	if len(args) == 0 {
		return nil, Permanent(errors.New("nothing is left of the command after its variables were expanded"))
	}
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	out := &limitedBuffer{limit: MaxCommandOutput, full: func() { stop(errOutput) }}
	tail := &tailBuffer{limit: commandErrorTail}
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, bytes.NewReader(job.Payload), out, tail
	return commandEnd(ctx, runGroup(cmd), out, tail)
}

func jobEnv(job Job) []string {
	return []string{
		"OSQUEUE_JOB_ID=" + job.ID,
		"OSQUEUE_JOB_TYPE=" + job.Type,
		"OSQUEUE_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"OSQUEUE_TOKEN=" + strconv.FormatUint(job.Token, 10),
	}
}

var errOutput = fmt.Errorf("the command wrote more than %d bytes to stdout; store large results elsewhere", MaxCommandOutput)

var errLeftOpen = errors.New("the command has ended, but a process that it started keeps its output open; let it wait for that process")

// commandEnd turns how the program ended into the handler's answer.
func commandEnd(ctx context.Context, err error, out *limitedBuffer, tail *tailBuffer) (jsontext.Value, error) {
	cause := context.Cause(ctx)
	switch {
	case out.over:
		return nil, errOutput
	case err == nil:
		return commandResult(out.buf.Bytes()), nil
	case errors.Is(err, exec.ErrWaitDelay) && cause == nil:
		return nil, errLeftOpen
	case cause != nil:
		return nil, fmt.Errorf("the command was ended: %w", cause)
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return nil, RetryAfter(startPause, fmt.Errorf("start the command: %w", err))
	}
	if text := tail.Text(); text != "" {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return nil, err
}

// commandResult makes JSON of what a program wrote.
func commandResult(out []byte) jsontext.Value {
	trimmed := jsontext.Value(bytes.TrimSpace(out))
	switch {
	case len(trimmed) == 0:
		return nil
	case trimmed.IsValid():
		return trimmed
	}
	text := strings.TrimSuffix(strings.TrimSuffix(string(out), "\n"), "\r")
	quoted, err := jsontext.AppendQuote(nil, strings.ToValidUTF8(text, "\uFFFD"))
	if err != nil {
		return jsontext.Value(`""`) // not reached: the text is valid UTF-8
	}
	return quoted
}
