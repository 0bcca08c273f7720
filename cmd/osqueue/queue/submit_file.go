package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
)

// submitWindow bounds the jobs of a file that were sent and have not ended.
const submitWindow = 100_000

// sent is a batch and its outcome.
type sent struct {
	batch batch
	got   client.BatchEnqueued
	err   error
}

// fileSubmit is one run of "osqueue submit --file".
type fileSubmit struct {
	g     *view.Globals
	c     *client.Client
	flags *submitFlags

	began      time.Time
	answered   time.Time // when the last of the batches was
	submitted  int
	duplicates int
	ended      int // of those that were waited for
	failed     int // did not complete
	progress   *view.Progress
}

func submitFile(ctx context.Context, g *view.Globals, c *client.Client, f *submitFlags) error {
	in, err := openInput(g, f.file)
	if err != nil {
		return err
	}
	defer in.Close()
	s := &fileSubmit{g: g, c: c, flags: f, began: time.Now()}
	if f.wait {
		err = s.withResults(ctx, in)
	} else {
		err = s.enqueue(ctx, &view.Interruptible{Ctx: ctx, In: in}, s.writeIDs)
	}
	if fault := s.summary(); err == nil || errors.As(err, new(view.SilentError)) {
		err = errors.Join(err, fault)
	}
	return err
}

// enqueue sends the file, and passes the ids of each batch to done, in order.
func (s *fileSubmit) enqueue(ctx context.Context, in io.Reader, done func(ids []string) error) error {
	batches := readBatches(newLineReader(in, s.flags, s.g.MaxBatchBytes()))
	send := func(ctx context.Context, b batch) sent {
		got, err := s.c.EnqueueBatch(withKey(ctx, s.flags.keyOf(b)), b.jobs)
		return sent{batch: b, got: got, err: err}
	}
	return inOrder(ctx, batchesInFlight, batches, send, func(r sent) error {
		if r.err != nil {
			return r.batch.notEnqueued(r.err)
		}
		s.answered = time.Now()
		s.submitted += len(r.got.JobIDs)
		s.duplicates += len(r.got.Duplicates)
		return done(r.got.JobIDs)
	})
}

// keyOf returns the idempotency key of a batch: each batch needs its own.
func (f *submitFlags) keyOf(b batch) string {
	if f.key == "" {
		return ""
	}
	return fmt.Sprintf("%s/%d", f.key, b.first)
}

// readBatches returns the batches of the file; an error ends the sequence.
func readBatches(lines *lineReader) iter.Seq2[batch, error] {
	return func(yield func(batch, error) bool) {
		for {
			b, err := lines.next()
			if errors.Is(err, io.EOF) || !yield(b, err) || err != nil {
				return
			}
		}
	}
}

func (s *fileSubmit) writeIDs(ids []string) error {
	for _, id := range ids {
		var err error
		if s.g.JSON {
			err = view.WriteWritten(s.g, map[string]string{"jobId": id})
		} else {
			err = s.g.Printf("%s\n", id)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// withResults sends the file and writes the results.
func (s *fileSubmit) withResults(ctx context.Context, in io.Reader) error {
	if s.flags.id == "" && s.flags.key == "" {
		s.flags.id = client.NewID() // so that the same jobs can be waited for again
	}
	watch, err := s.c.Watch(ctx, "")
	if err != nil {
		return err
	}
	defer watch.Close()
	restore := closedPipe()
	defer restore()
	s.progress = s.g.NewProgress(s.flags.quiet)
	defer s.progress.Close()
	s.progress.Count(s.flags.file)
	cfg := pipelineConfig{
		c: s.c, watch: watch, progress: s.progress, window: submitWindow, keepOrder: s.flags.keepOrder, waitFor: s.flags.waitFor,
		failed: didNotComplete, tell: s.tell, each: s.writeResult,
	}
	if s.flags.key != "" {
		cfg.keyOf = s.flags.keyOf
	}
	f := newPipeline(cfg)
	err = f.run(ctx, readBatches(newLineReader(in, s.flags, s.g.MaxBatchBytes())))
	s.progress.Close()
	figures := s.progress.Figures()
	s.submitted, s.ended, s.failed = figures.Sent, figures.Ended, figures.Failed
	s.answered, s.duplicates = f.lastAnswered(), f.known()
	if errors.As(err, new(view.SilentError)) {
		return cutShort(s.submitted, s.again())
	}
	return leaving(ctx, err, f.waiting(), "wait for them again with the same command and "+s.again())
}

func didNotComplete(job v1.Job) bool { return job.Status != v1.StatusCompleted }

// again returns the flag with which the same command waits for the same jobs.
func (s *fileSubmit) again() string {
	if s.flags.key != "" {
		return "--idempotency-key " + units.ShellWord(s.flags.key)
	}
	return "--id " + units.ShellWord(s.flags.id)
}

// tell prints at once an error that will fail the command when all jobs have ended.
func (s *fileSubmit) tell(err error) {
	_ = s.progress.Around(func() error {
		s.g.PrintError(err)
		return nil
	})
}

// lineResult is the JSON form of the result of a line.
type lineResult struct {
	Line int    `json:"line"`
	Job  v1.Job `json:",embed"`
}

func (s *fileSubmit) writeResult(r endedLine) error {
	if s.g.JSON {
		return s.g.WriteJSON(lineResult{Line: r.line, Job: r.job})
	}
	return view.Write(s.g.Out, fmt.Sprintf("%d\t%s\t%s\t%s\n", r.line, view.PlainLine(r.job.ID), view.OrDash(r.job.Status), outcomeOf(r.job)))
}

// summary prints the figures on stderr. It returns an error if a job did not complete.
func (s *fileSubmit) summary() error {
	if s.flags.quiet {
		return s.outcome()
	}
	text := fmt.Sprintf("submitted %d jobs", s.submitted)
	if !s.answered.IsZero() {
		took := s.answered.Sub(s.began) // the rate excludes the wait for results
		text += fmt.Sprintf(" in %s (%.0f jobs/s)", units.Short(took), float64(s.submitted)/took.Seconds())
	}
	if s.duplicates > 0 {
		text += fmt.Sprintf(", %d of them existed already", s.duplicates)
	}
	if s.flags.wait {
		text += fmt.Sprintf("; %d ended within %s", s.ended, units.Short(time.Since(s.began)))
	}
	if s.failed > 0 {
		text += fmt.Sprintf("; %d did not complete", s.failed)
	}
	if err := view.WritePlain(s.g.Err, text+"\n"); err != nil {
		return err
	}
	return s.outcome()
}

// outcome returns an error if a job did not complete.
func (s *fileSubmit) outcome() error {
	if s.failed > 0 {
		return view.SilentError{}
	}
	return nil
}
