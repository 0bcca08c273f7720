package queue

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newSubmitCommand(g *view.Globals) *cobra.Command {
	f := &submitFlags{}
	cmd := &cobra.Command{
		Use:   "submit [TYPE] [PAYLOAD]",
		Short: "Enqueue jobs",
		Long: `Enqueues a job and prints its id. PAYLOAD is JSON, or any text with --text; with -, or
if stdin is a pipe, it is read from stdin. Otherwise the job has no payload. The type ''
is that of jobs without type.

With --file each line is a job: its payload if a type is given, else an object
like {"type":"wc","payload":[1,2],"priority":5}, with the fields of the HTTP
API; a line with an unknown field, or without type, is an error. FILE may be - for
stdin. The lines are sent in batches of up to 1000, several at the same time; each batch
is enqueued as a whole or not at all. With --id ID the job of line N gets the id ID-N:
a second run with the same ID adds no job twice.

With --wait the command prints the results instead of the ids. Those of a file come as
the jobs end, or in the order of the lines with --keep-order: number of the line,
id, status, and the result or the error; with --json the job, with its line. The
progress is on stderr. The exit status is 1 if a job did not complete. After Ctrl-C the
jobs continue; the command prints how to wait for them again, and exits with status 130.

With --after ID the job waits until that job has completed; --after-failure applies if
that job dies or is cancelled: block (keep waiting, for a retry), cancel (cancel this
job too) or run (run this job anyway).

Commands with the same --idempotency-key, or --id, add the jobs once.

` + view.UniqueHelp + "\n\n" + view.BackoffHelp,
		Example: `  osqueue submit wc '"three little words"'
  date | osqueue submit wc --text --wait
  find . -name '*.go' | osqueue submit lint --text --file -
  osqueue submit report --run-at '2026-12-24 18:00' --job-timeout 10m --backoff exponential:1s:1h:20%
  osqueue submit mail '{"to":"you"}' --unique mail-7:period:1h --tag newsletter --group customer-7
  osqueue submit pack --after "$(osqueue submit fetch)" --after-failure cancel`,
		RunE: func(cmd *cobra.Command, args []string) error { return runSubmit(cmd.Context(), g, f, args) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.id, "id", "", "id of the job (default: a fresh UUID)")
	f.bindJob(cmd)
	flags.StringVar(&f.batch, "batch", "", "id of the open batch to add it to")
	flags.StringVar(&f.key, "idempotency-key", "", "idempotency key: commands with the same key add the jobs once")
	flags.StringVar(&f.file, "file", "", "enqueue the lines of a file; - is stdin")
	flags.BoolVar(&f.wait, "wait", false, "wait for the results")
	view.PositiveVar(flags, &f.waitFor, "wait-for", time.Hour, "maximum time to wait for one result")
	flags.BoolVar(&f.keepOrder, "keep-order", false, "print the results of a file in the order of its lines")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "do not show progress on stderr")
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
	return g.Open(ctx, func(ctx context.Context, c *client.Client) error {
		if f.file != "" {
			return submitFile(ctx, g, c, f)
		}
		return submitOne(ctx, g, c, f, payload)
	})
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
	switch {
	case err != nil:
		return err
	case !f.wait:
		return showEnqueued(g, got)
	}
	if err := noteHolder(g, got); err != nil {
		return err
	}
	return waitOne(ctx, g, c, f, got.JobID)
}

// waitOne waits for a job that was just enqueued.
func waitOne(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags, id string) error {
	err := waitFinished(ctx, g, c, f.waitFor, id)
	if err != nil && ctx.Err() != nil {
		return interrupted(fmt.Sprintf("job %s continues; wait for it again with: osqueue job wait %s", id, view.ShellWord(id)))
	}
	switch named := err != nil && strings.Contains(err.Error(), id); {
	case !errors.Is(err, client.ErrNotFinished) && !errors.As(err, new(*client.Error)):
		return err
	case named:
		return fmt.Errorf("the job is enqueued, but: %w", err)
	}
	return fmt.Errorf("job %s is enqueued, but: %w", id, err)
}

// showEnqueued prints the id of a job that was enqueued.
func showEnqueued(g *view.Globals, e client.Enqueued) error {
	if err := noteHolder(g, e); err != nil {
		return err
	}
	return g.Print(view.Written(g, v1.Enqueued{JobID: e.JobID, LSN: e.LSN, Duplicate: e.Duplicate}), "%s\n", e.JobID)
}

// noteHolder prints a note that the printed id belongs to the job that holds the unique
// key.
func noteHolder(g *view.Globals, e client.Enqueued) error {
	if e.Holder == "" {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("nothing was added: job %s holds the unique key\n", e.Holder))
}

// submitWindow bounds the jobs of a file that were sent and have not ended.
const submitWindow = 100_000

// fileSubmit is one run of "osqueue submit --file".
type fileSubmit struct {
	g     *view.Globals
	c     *client.Client
	flags *submitFlags

	began    time.Time
	pipeline *pipeline
	progress *view.Progress
}

func submitFile(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags) error {
	in, err := openInput(g, f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	s := &fileSubmit{g: g, c: c, flags: f, began: time.Now()}
	err = s.run(ctx, newLineReader(&view.Interruptible{Ctx: ctx, In: in}, f.parse))
	if fault := s.summary(); err == nil || errors.As(err, new(view.SilentError)) {
		err = errors.Join(err, fault)
	}
	return err
}

// keyOf returns the idempotency key of a batch: each batch needs its own.
func (f *submitFlags) keyOf(b batch) string { return fmt.Sprintf("%s/%d", f.key, b.lines[0]) }

// run sends the file, and writes the ids, or the results.
func (s *fileSubmit) run(ctx context.Context, lines *lineReader) error {
	f := s.flags
	if f.wait && f.id == "" && f.key == "" {
		f.id = client.NewID() // so that the same jobs can be waited for again
	}
	ctx, end := context.WithCancel(ctx)
	defer end()
	s.progress = s.g.NewProgress(f.quiet || !f.wait)
	cfg := pipelineConfig{
		g: s.g, c: s.c, to: &enqueuer{ctx: ctx, c: s.c, done: make(chan string, client.MaxBatchJobs)}, progress: s.progress,
		window: submitWindow, keepOrder: true, whole: true, failed: func(v1.Job) bool { return false }, each: s.writeID,
	}
	if f.wait {
		watch, err := s.c.Watch(ctx, "")
		if err != nil {
			return err
		}
		defer watch.Close()
		s.progress.Count(f.file)
		cfg.to, cfg.keepOrder, cfg.waitFor, cfg.failed, cfg.each = watch, f.keepOrder, f.waitFor, didNotComplete, s.writeResult
	}
	if f.key != "" {
		cfg.keyOf = f.keyOf
	}
	s.pipeline = newPipeline(cfg)
	err := s.pipeline.run(ctx, lines, s.g.MaxBatchBytes())
	if again := s.again(); f.wait || again != "" && errors.As(err, new(view.SilentError)) {
		return s.pipeline.outcome(ctx, err, again, "wait for them again with the same command and "+again)
	}
	if err != nil && ctx.Err() != nil {
		return interrupted("interrupted before all lines were sent")
	}
	return err
}

func didNotComplete(job v1.Job) bool { return job.Status != v1.StatusCompleted }

// again returns the flag with which the same command adds no job twice; "" if it has none.
func (s *fileSubmit) again() string {
	switch {
	case s.flags.key != "":
		return "--idempotency-key " + view.ShellWord(s.flags.key)
	case s.flags.id != "":
		return "--id " + view.ShellWord(s.flags.id)
	}
	return ""
}

// lineResult is the JSON form of the result of a line.
type lineResult struct {
	Line int    `json:"line"`
	Job  v1.Job `json:",embed"`
}

// writeID writes the id of a line's job.
func (s *fileSubmit) writeID(r endedLine) error {
	return s.g.Print(view.Written(s.g, map[string]string{"jobId": r.job.ID}), "%s\n", r.job.ID)
}

func (s *fileSubmit) writeResult(r endedLine) error {
	if s.g.JSON {
		return s.g.WriteJSON(lineResult{Line: r.line, Job: r.job})
	}
	return view.Write(s.g.Out, fmt.Sprintf("%d\t%s\t%s\t%s\n", r.line, view.PlainLine(r.job.ID), view.OrDash(r.job.Status), outcomeOf(r.job)))
}

// summary prints the figures on stderr. It returns an error if a job did not complete.
func (s *fileSubmit) summary() error {
	now := s.progress.Figures()
	if !s.flags.quiet {
		text := fmt.Sprintf("submitted %d jobs", now.Sent)
		if p := s.pipeline; p != nil {
			if answered := p.lastAnswered(); !answered.IsZero() {
				took := answered.Sub(s.began) // the rate excludes the wait for results
				text += fmt.Sprintf(" in %s (%.0f jobs/s)", view.Short(took), float64(now.Sent)/took.Seconds())
			}
			if n := p.known(); n > 0 {
				text += fmt.Sprintf(", %d of them existed already", n)
			}
		}
		if s.flags.wait {
			text += fmt.Sprintf("; %d ended within %s", now.Ended, view.Short(time.Since(s.began)))
		}
		if now.Failed > 0 {
			text += fmt.Sprintf("; %d did not complete", now.Failed)
		}
		if err := view.WritePlain(s.g.Err, text+"\n"); err != nil {
			return err
		}
	}
	if now.Failed > 0 {
		return view.SilentError{}
	}
	return nil
}
