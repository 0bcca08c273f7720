package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
	"osqueue/internal/cli/view"
)

// maxPayload bounds the payload of one job: the server takes 1 MiB including the other
// fields.
const maxPayload = 1<<20 - 1024

// submitFlags are the flags of "osqueue submit".
type submitFlags struct {
	jobFlags
	kind         string
	typed        bool // a type is given, which may be ''
	id           string
	runAt        units.Time
	delay        time.Duration
	after        []string
	afterFailure string
	batch        string
	key          string // idempotency key
	text         bool
	file         string
	wait         bool
	waitFor      time.Duration
	keepOrder    bool
	quiet        bool
}

func newSubmitCommand(g *view.Globals) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit [TYPE] [PAYLOAD]",
		Short: "Enqueue jobs",
		Long: `Enqueues a job and prints its id. PAYLOAD is JSON, or any text with --text; - or
a piped stdin stands for what is read there. Without any of these the job has no
payload. The type '' is that of jobs without type.

With --file each line is a job: its payload if a type is given, else an object
like {"type":"wc","payload":[1,2],"priority":5}, with the fields of the HTTP
API; a line with an unknown field, or without type, is refused. FILE may be - for
stdin. The lines are sent in batches of up to 1000, a few at a time; each batch is
enqueued as a whole or not at all. With --id ID the job of line N gets the id ID-N:
a file sent again under the same ID adds nothing twice.

With --wait the results are printed instead of the ids. Those of a file come as
the jobs end, or in the order of the lines with --keep-order: number of the line,
id, status, and the result or the error; with --json the job, with its line. The
progress is on stderr. The exit status is 1 if a job did not complete. Ctrl-C
ends the waiting, not the jobs, says how to wait for them again, and makes the
exit status 130.

With --after ID the job waits until that job has completed; --after-failure says
what happens if it dies or is cancelled: block (wait on: a retry may save it),
cancel (this job too) or run (it all the same).

The same command with the same --idempotency-key, or --id, adds its jobs once.

` + units.UniqueHelp + "\n\n" + units.BackoffHelp + "\n\n" + view.ExitHelp,
		Example: `  osqueue submit wc '"three little words"'
  date | osqueue submit wc --text --wait
  find . -name '*.go' | osqueue submit lint --text --file -
  osqueue submit report --run-at '2026-12-24 18:00' --job-timeout 10m --backoff exponential:1s:1h:20%
  osqueue submit mail '{"to":"you"}' --unique mail-7:period:1h --tag newsletter --group customer-7
  osqueue submit pack --after "$(osqueue submit fetch)" --after-failure cancel`,
		Args: view.UsageArgs(cobra.MaximumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return runSubmit(cmd.Context(), g, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "type", "", "type of the jobs, which is also the name of their queue")
	flags.StringVar(&f.id, "id", "", "id of the job (default: a fresh UUID)")
	units.SpanVar(flags, &f.delay, "delay", 0, "do not run it before that time from now")
	flags.Var(&f.runAt, "run-at", "do not run it before: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m from now")
	f.bind(g, flags)
	flags.StringArrayVar(&f.after, "after", nil, "id of a job that must complete first; may be given several times")
	flags.StringVar(&f.afterFailure, "after-failure", "", "block, cancel or run, if a job of --after does not complete (default block)")
	flags.StringVar(&f.batch, "batch", "", "id of the open batch to add it to")
	flags.StringVar(&f.key, "idempotency-key", "", "add the jobs once, however often the command is run with that key")
	flags.BoolVar(&f.text, "text", false, "payloads are text, not JSON")
	flags.StringVar(&f.file, "file", "", "enqueue the lines of a file; - is stdin")
	flags.BoolVar(&f.wait, "wait", false, "wait for the results")
	units.SpanVar(flags, &f.waitFor, "wait-for", time.Hour, "how long to wait for one result")
	flags.BoolVar(&f.keepOrder, "keep-order", false, "print the results of a file in the order of its lines")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not tell on stderr how far the jobs of a file are")
	view.CompleteFlag(cmd, "after-failure", afterFailures...)
	return cmd
}

func runSubmit(ctx context.Context, g *view.Globals, f *submitFlags, args []string) error {
	payload, err := f.arguments(args, "osqueue submit TYPE [PAYLOAD]\n       osqueue submit --file FILE")
	if err != nil {
		return err
	}
	if err := errors.Join(f.check(), notePast(g, f.runAt)); err != nil {
		return err
	}
	c, err := g.Client()
	if err != nil {
		return err
	}
	defer c.Close()
	return g.Acked(ctx, func(ctx context.Context) error {
		if f.file != "" {
			return submitFile(ctx, g, c, f)
		}
		return submitOne(ctx, g, c, f, payload)
	})
}

// arguments splits TYPE and PAYLOAD; usage is for the error if TYPE is missing. A nil
// payload means that the payload comes from stdin.
func (f *submitFlags) arguments(args []string, usage string) (payload *string, err error) {
	f.typed = f.flags.Changed("type")
	if !f.typed && len(args) > 0 {
		f.kind, f.typed, args = args[0], true, args[1:]
	}
	switch {
	case !f.typed && f.file == "":
		return nil, view.Usagef("TYPE is missing: give the type of the job, or '' for a job without type\nUsage: %s", usage)
	case len(args) > 1:
		return nil, view.Usagef("%q and %q: with --type only PAYLOAD may follow", args[0], args[1])
	case len(args) == 1 && f.file != "":
		return nil, view.Usagef("PAYLOAD and --file exclude each other")
	case len(args) == 1:
		return &args[0], nil
	}
	return nil, nil
}

func (f *submitFlags) check() error {
	if err := f.jobFlags.check(); err != nil {
		return err
	}
	switch {
	case f.delay < 0:
		return view.Usagef("--delay %v: must not be negative", f.delay)
	case f.delay > 0 && f.runAt.Text != "":
		return view.Usagef("--delay and --run-at exclude each other")
	case f.afterFailure != "" && !slices.Contains(afterFailures, f.afterFailure):
		return view.Usagef("--after-failure %q: use %s", f.afterFailure, strings.Join(afterFailures, ", "))
	case f.unique.Text != "" && f.file != "":
		return view.Usagef("--unique is for one job; in a file of jobs give each line a uniqueKey of its own")
	case f.waitFor <= 0:
		return view.Usagef("--wait-for %v: must be positive", f.waitFor)
	case f.text && f.file != "" && !f.typed:
		return view.Usagef("--text with --file needs a type: the lines are payloads then")
	}
	return nil
}

var afterFailures = []string{v1.AfterBlock, v1.AfterCancel, v1.AfterRun}

// job returns a job with the values of the flags.
func (f *submitFlags) job(payload []byte) client.NewJob {
	job := f.jobFlags.job()
	job.ID, job.Type, job.Payload = f.id, f.kind, payload
	job.RunAt, job.Delay = f.runAt.At, f.delay
	job.After, job.AfterFailure, job.BatchID = f.after, f.afterFailure, f.batch
	return job
}

func submitOne(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags, argument *string) error {
	text, present, err := readPayload(ctx, g, argument)
	if err != nil {
		return err
	}
	var payload []byte
	if present {
		if payload, err = asJSON(text, f.text); err != nil {
			return view.Usagef("the payload %w", err)
		}
	}
	got, err := c.Enqueue(withKey(ctx, f.key), f.job(payload))
	if err == nil {
		err = noteHolder(g, got)
	}
	switch {
	case err != nil:
		return err
	case f.wait:
		return waitOne(ctx, g, c, f, got.JobID)
	}
	return showEnqueued(g, got)
}

// withKey adds an idempotency key to the writes of ctx, if there is one.
func withKey(ctx context.Context, key string) context.Context {
	if key == "" {
		return ctx
	}
	return client.WithIdempotencyKey(ctx, key)
}

// noteHolder prints a note that the printed id belongs to the job that holds the unique
// key.
func noteHolder(g *view.Globals, e client.Enqueued) error {
	if e.Holder == "" {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("nothing was added: job %s holds the unique key\n", e.Holder))
}

// waitOne waits for a job that was just enqueued.
func waitOne(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags, id string) error {
	err := waitFinished(ctx, g, c, f.waitFor, id)
	if err != nil && ctx.Err() != nil {
		return interrupted(fmt.Sprintf("job %s goes on; wait for it again with: osqueue job wait %s", id, units.ShellWord(id)))
	}
	if errors.Is(err, client.ErrNotFinished) || errors.As(err, new(*client.Error)) {
		return fmt.Errorf("job %s is enqueued, but: %w", id, err)
	}
	return err
}

// waitFinished prints a job's result, and nothing else.
func waitFinished(ctx context.Context, g *view.Globals, c *client.Client, atMost time.Duration, id string) error {
	job, err := waitForEnd(ctx, g, c, awaited{id: id, limit: atMost, start: startExec})
	if err != nil {
		return err
	}
	if g.JSON {
		err = g.WriteJSON(job)
	} else if job.Result != nil {
		err = view.Write(g.Out, string(job.Result)+"\n") // unchanged, for programs
	}
	if err == nil && job.Status != v1.StatusCompleted {
		err = &client.JobError{Job: job}
	}
	return err
}

// readPayload returns the argument, or else the content of stdin.
func readPayload(ctx context.Context, g *view.Globals, argument *string) (text []byte, present bool, err error) {
	if argument != nil && *argument != "-" {
		return []byte(*argument), true, nil
	}
	if argument == nil && !piped(g.In) {
		return nil, false, nil
	}
	text, err = io.ReadAll(io.LimitReader(g.Stdin(ctx), maxPayload+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read the payload from stdin: %w", err)
	case len(text) > maxPayload:
		return nil, false, fmt.Errorf("the payload on stdin is larger than %d bytes; store it elsewhere and submit its place", maxPayload)
	}
	return text, len(text) > 0 || argument != nil, nil
}

// piped reports whether data is sent to stdin: a terminal and /dev/null are devices.
func piped(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice == 0
}

// notJSON describes the position at which a payload stops being JSON.
func notJSON(text []byte) error {
	var syntax *jsontext.SyntacticError
	if err := json.Unmarshal(text, new(jsontext.Value)); !errors.As(err, &syntax) {
		return fmt.Errorf("is not valid JSON (%w); quote text as JSON, or give --text", err)
	}
	at := int(syntax.ByteOffset)
	reason := strings.TrimPrefix(syntax.Err.Error(), "jsontext: ")
	if errors.Is(syntax.Err, io.ErrUnexpectedEOF) {
		reason = "it ends too early"
	}
	return fmt.Errorf("is not valid JSON at byte %d%s: %s; quote text as JSON, or give --text", at, near(text, at), reason)
}

// near returns the text before a position.
func near(text []byte, at int) string {
	const most = 20
	at = min(at, len(text))
	if at == 0 {
		return ""
	}
	return fmt.Sprintf(", after %q", text[max(0, at-most):at])
}

// asJSON converts a typed payload to JSON.
func asJSON(text []byte, plain bool) ([]byte, error) {
	if plain {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("is not UTF-8: %w", err)
		}
		return quoted, nil
	}
	value := jsontext.Value(text)
	if !value.IsValid() {
		return nil, notJSON(text)
	}
	return value, nil
}

// notePast warns if the time to run is in the past: such a job runs at once.
func notePast(g *view.Globals, runAt units.Time) error {
	if runAt.Text == "" || !runAt.At.Before(time.Now().Add(-time.Second)) {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("warning: --run-at %s is in the past (%s): the job runs at once\n",
		runAt.Text, units.LocalTime(runAt.At.UnixMilli())))
}
