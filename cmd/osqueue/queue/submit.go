package queue

import (
	"context"
	"errors"
	"fmt"
	"os"
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

With --payload-file the bytes of a file go into the bucket, and the job gets them as its artefact
payload: osqueue job get ID prints them, and a worker opens them with Job.Open.

With --after ID the job waits until that job has completed; --after-failure applies if
that job dies, expires or is cancelled: block (keep waiting, for a retry), cancel (cancel this
job too), run (run this job anyway) or only (run this job only then, else cancel it). The worker
of the job gets the results of the jobs that it waited for.

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
	flags.StringVar(&f.step, "step", "", "name of the job in the batch")
	flags.StringVar(&f.key, "idempotency-key", "", "idempotency key: commands with the same key add the jobs once")
	flags.StringVar(&f.file, "file", "", "enqueue the lines of a file; - is stdin")
	flags.StringVar(&f.payloadFile, "payload-file", "", "upload a file, of up to 5 GiB, as the artefact payload of the job; - is stdin")
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
	job, err := f.one(ctx, g, argument)
	if err != nil {
		return err
	}
	if err := f.upload(ctx, g, c, &job); err != nil {
		return err
	}
	o := &oneJob{g: g, c: c}
	p := o.pipeline()
	p.waitFor = f.waitFor
	if job.ID == "" && f.wait && f.key == "" {
		job.ID = client.NewID() // so that the job can be waited for again
	}
	o.bare = job.ID == ""
	if !f.wait {
		p.watch, p.each = nil, func(*line) error { return showEnqueued(g, o.got) }
	}
	if f.key != "" {
		p.keyOf = func(batch) string { return f.key }
	}
	return o.run(ctx, p, job)
}

// upload makes the file of the flags an artefact of a job.
func (f *submitFlags) upload(ctx context.Context, g *view.Globals, c *client.Client, job *client.NewJob) error {
	if f.payloadFile == "" {
		return nil
	}
	in := g.Stdin(ctx)
	if f.payloadFile != "-" {
		file, err := os.Open(f.payloadFile)
		if err != nil {
			return err
		}
		defer file.Close()
		in = file // which can seek
	}
	if job.ID == "" {
		job.ID = client.NewID()
	}
	a, err := c.Upload(ctx, job.ID, payloadArtefact, in)
	job.Artefacts = append(job.Artefacts, a)
	return err
}

// payloadArtefact is the name of the artefact of --payload-file.
const payloadArtefact = "payload"

// one returns the job of the flags, with the payload of the argument or of stdin.
func (f *submitFlags) one(ctx context.Context, g *view.Globals, argument *string) (job client.NewJob, err error) {
	if f.payloadFile != "" && argument == nil {
		return f.job(nil), nil
	}
	text, present, err := readPayload(ctx, g, argument)
	if err != nil {
		return job, err
	}
	job = f.job(nil)
	if present {
		if job.Payload, err = asJSON(text, f.text); err != nil {
			return job, view.Usagef("the payload %w", err)
		}
	}
	return job, nil
}

// showEnqueued prints the id of a job that was enqueued.
func showEnqueued(g *view.Globals, e client.Enqueued) error {
	return g.Print(view.Written(g, v1.Enqueued{JobID: e.JobID, LSN: e.LSN, Duplicate: e.Duplicate}), "%s\n", e.JobID)
}

// noteHolder prints a note that the printed id belongs to the job that holds the unique
// key.
func noteHolder(g *view.Globals, e client.Enqueued) error {
	if e.Holder == "" {
		return nil
	}
	if e.Replaced {
		return view.WritePlain(g.Err, fmt.Sprintf("job %s waits with the unique key, and has got the fields of this one\n", e.Holder))
	}
	return view.WritePlain(g.Err, fmt.Sprintf("nothing was added: job %s holds the unique key\n", e.Holder))
}

// submitFile sends the lines of a file, and writes the ids, or the results.
func submitFile(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags) error {
	in, err := g.OpenInput(ctx, f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	if f.wait && f.id == "" && f.key == "" {
		f.id = client.NewID() // so that the same jobs can be waited for again
	}
	p := &pipeline{
		g: g, c: c, enqueue: c.EnqueueBatch, window: submitWindow, keepOrder: true, whole: true,
		each: func(l *line) error {
			return g.Print(view.Written(g, map[string]string{"jobId": l.ended.ID}), "%s\n", l.ended.ID)
		},
	}
	if f.key != "" {
		p.keyOf = func(b batch) string { return fmt.Sprintf("%s/%d", f.key, b[0].number) } // each batch needs its own
	}
	if f.wait {
		watch, err := c.Watch(ctx, "")
		if err != nil {
			return err
		}
		defer watch.Close()
		p.enqueue, p.watch, p.keepOrder, p.waitFor = watch.Enqueue, watch, f.keepOrder, f.waitFor
		p.failed = func(job v1.Job) bool { return job.Status != v1.StatusCompleted }
		p.each = func(l *line) error { return writeResult(g, l) }
	}
	p.progress = g.NewProgress(f.quiet || !f.wait)
	p.progress.Count(f.file)
	began := time.Now()
	err = p.run(ctx, linesOf(in, f.parse))
	again := f.again()
	err = p.outcome(ctx, err, again, "wait for them again with the same command and "+again)
	if fault := f.summary(g, p, began); fault != nil {
		return fault
	}
	if err == nil && p.progress.Figures().Failed > 0 {
		err = view.SilentError{}
	}
	return err
}

// again returns the flag with which the same command adds no job twice; "" if it has none.
func (f *submitFlags) again() string {
	switch {
	case f.key != "":
		return "--idempotency-key " + view.ShellWord(f.key)
	case f.id != "":
		return "--id " + view.ShellWord(f.id)
	}
	return ""
}

// writeResult writes the result of a line's job.
func writeResult(g *view.Globals, l *line) error {
	if g.JSON {
		return g.WriteJSON(struct {
			Line int    `json:"line"`
			Job  v1.Job `json:",embed"`
		}{l.number, l.ended})
	}
	return view.Write(g.Out, fmt.Sprintf("%d\t%s\t%s\t%s\n", l.number, view.PlainLine(l.ended.ID), view.OrDash(l.ended.Status), outcomeOf(l.ended)))
}

// summary prints the figures of a file on stderr.
func (f *submitFlags) summary(g *view.Globals, p *pipeline, began time.Time) error {
	if f.quiet {
		return nil
	}
	now := p.progress.Figures()
	text := fmt.Sprintf("submitted %d jobs", now.Sent)
	if !p.answered.IsZero() {
		took := p.answered.Sub(began) // the rate excludes the wait for results
		text += fmt.Sprintf(" in %s (%.0f jobs/s)", view.Short(took), float64(now.Sent)/took.Seconds())
	}
	text += p.existed()
	if f.wait {
		text += fmt.Sprintf("; %d ended within %s", now.Ended, view.Short(time.Since(began)))
	}
	if now.Failed > 0 {
		text += fmt.Sprintf("; %d did not complete", now.Failed)
	}
	return view.WritePlain(g.Err, text+"\n")
}
