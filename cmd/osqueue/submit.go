package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// maxPayload bounds what is read for one job: the server takes 1 MiB with all
// that stands around it.
const maxPayload = 1<<20 - 1024

// submitFlags are the flags of "osqueue submit".
type submitFlags struct {
	kind        string
	id          string
	priority    int32
	delay       time.Duration
	lease       time.Duration
	maxAttempts int32
	text        bool
	file        string
	wait        bool
	waitFor     time.Duration
}

func newSubmitCommand(g *globals) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit [TYPE] [PAYLOAD]",
		Short: "Enqueue jobs",
		Long: `Enqueues a job and prints its id. PAYLOAD is JSON, or any text with --text; - or
a piped stdin stands for what is read there. Without any of these the job has no
payload.

With --file each line is a job: its payload if a type is given, else an object
like {"type":"wc","payload":[1,2],"priority":5}, with the members of the HTTP
API. FILE may be - for stdin. The lines are sent in batches of up to 1000, a few
at a time; each batch is enqueued as a whole or not at all. With --id ID the job
of line N gets the id ID-N: a file sent again under the same ID adds nothing
twice.

With --wait the results are printed instead of the ids, in the order of the
jobs; the exit status is 1 if a job did not complete.

` + exitHelp,
		Example: `  osqueue submit wc '"three little words"'
  date | osqueue submit wc --text --wait
  find . -name '*.go' | osqueue submit lint --text --file -`,
		Args: usageArgs(cobra.MaximumNArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error { return runSubmit(cmd.Context(), g, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.kind, "type", "", "type of the jobs, which is also the name of their queue")
	flags.StringVar(&f.id, "id", "", "id of the job (default: a fresh UUID)")
	flags.Int32Var(&f.priority, "priority", 0, "higher first")
	flags.DurationVar(&f.delay, "delay", 0, "do not run it before that time from now")
	flags.DurationVar(&f.lease, "lease", 0, "how long a claim of it lasts without heartbeat (default: the server's)")
	flags.Int32Var(&f.maxAttempts, "max-attempts", 0, "how often it may be tried (default: the server's)")
	flags.BoolVar(&f.text, "text", false, "payloads are text, not JSON")
	flags.StringVar(&f.file, "file", "", "enqueue the lines of a file; - is stdin")
	flags.BoolVar(&f.wait, "wait", false, "wait for the results")
	flags.DurationVar(&f.waitFor, "wait-for", time.Hour, "how long to wait for one result")
	return cmd
}

func runSubmit(ctx context.Context, g *globals, f *submitFlags, args []string) error {
	payload, err := f.arguments(args)
	if err != nil {
		return err
	}
	if err := f.check(); err != nil {
		return err
	}
	c, err := g.client()
	if err != nil {
		return err
	}
	defer c.Close()
	if f.file != "" {
		return submitFile(ctx, g, c, f)
	}
	return submitOne(ctx, g, c, f, payload)
}

// arguments sorts TYPE and PAYLOAD out. A nil payload is to be looked for on
// stdin.
func (f *submitFlags) arguments(args []string) (payload *string, err error) {
	if f.kind == "" && len(args) > 0 {
		f.kind, args = args[0], args[1:]
	}
	switch {
	case len(args) > 1:
		return nil, usagef("%q and %q: with --type only PAYLOAD may follow", args[0], args[1])
	case len(args) == 1 && f.file != "":
		return nil, usagef("PAYLOAD and --file exclude each other")
	case len(args) == 1:
		return &args[0], nil
	}
	return nil, nil
}

func (f *submitFlags) check() error {
	switch {
	case f.delay < 0 || f.lease < 0 || f.maxAttempts < 0:
		return usagef("--delay, --lease and --max-attempts must not be negative")
	case f.waitFor <= 0:
		return usagef("--wait-for %v: must be positive", f.waitFor)
	case f.text && f.file != "" && f.kind == "":
		return usagef("--text with --file needs a type: the lines are payloads then")
	}
	return nil
}

// job is a job with what the flags say.
func (f *submitFlags) job(payload jsontext.Value) client.NewJob {
	job := client.NewJob{
		ID: f.id, Type: f.kind, Payload: payload, Priority: f.priority, Delay: f.delay, Lease: f.lease,
	}
	if f.maxAttempts > 0 {
		job.MaxAttempts = &f.maxAttempts
	}
	return job
}

func submitOne(ctx context.Context, g *globals, c *client.Client, f *submitFlags, argument *string) error {
	text, present, err := g.payload(argument)
	if err != nil {
		return err
	}
	var payload jsontext.Value
	if present {
		if payload, err = asJSON(text, f.text); err != nil {
			return usagef("the payload %w", err)
		}
	}
	got, err := c.Enqueue(ctx, f.job(payload))
	switch {
	case err != nil:
		return err
	case f.wait:
		return waitOne(ctx, g, c, f, got.JobID)
	case g.json:
		return g.writeJSON(v1.Enqueued{JobID: got.JobID, LSN: got.LSN, Duplicate: got.Duplicate})
	}
	return g.printf("%s\n", got.JobID)
}

// waitOne prints a job's result, and nothing else.
func waitOne(ctx context.Context, g *globals, c *client.Client, f *submitFlags, id string) error {
	job, err := c.WaitJob(ctx, id, f.waitFor)
	if err != nil {
		return fmt.Errorf("job %s is enqueued, but: %w", id, err)
	}
	if g.json {
		if err := g.writeJSON(job); err != nil {
			return err
		}
	} else if job.Result != nil {
		if err := g.printf("%s\n", job.Result); err != nil {
			return err
		}
	}
	if job.Status != v1.StatusCompleted {
		return fmt.Errorf("job %s is %s: %s", id, job.Status, orDash(job.LastError))
	}
	return nil
}

// payload is the argument, or what stdin has.
func (g *globals) payload(argument *string) (text []byte, present bool, err error) {
	if argument != nil && *argument != "-" {
		return []byte(*argument), true, nil
	}
	if argument == nil && !piped(g.stdin) {
		return nil, false, nil
	}
	text, err = io.ReadAll(io.LimitReader(g.stdin, maxPayload+1))
	switch {
	case err != nil:
		return nil, false, fmt.Errorf("read the payload from stdin: %w", err)
	case len(text) > maxPayload:
		return nil, false, fmt.Errorf("the payload on stdin is larger than %d bytes; store it elsewhere and submit its place", maxPayload)
	}
	return text, len(text) > 0 || argument != nil, nil
}

// piped reports whether something is sent to stdin: a terminal and /dev/null
// are devices.
func piped(stdin io.Reader) bool {
	file, ok := stdin.(*os.File)
	if !ok {
		return stdin != nil
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&fs.ModeCharDevice == 0
}

var errNotJSON = errors.New("is not valid JSON; quote text as JSON, or give --text")

// asJSON is a payload as it was typed, as JSON.
func asJSON(text []byte, plain bool) (jsontext.Value, error) {
	if plain {
		quoted, err := jsontext.AppendQuote(nil, text)
		if err != nil {
			return nil, fmt.Errorf("is not UTF-8: %w", err)
		}
		return quoted, nil
	}
	value := jsontext.Value(text)
	if !value.IsValid() {
		return nil, errNotJSON
	}
	return value, nil
}
