package queue

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

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
		c: s.c, to: newEnqueuer(ctx, s.c), progress: s.progress, window: submitWindow, keepOrder: true, whole: true,
		failed: func(v1.Job) bool { return false }, tell: s.tell, each: s.writeID,
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
	switch again := s.again(); {
	case errors.As(err, new(view.SilentError)) && again != "":
		return cutShort(s.progress.Figures().Sent, again)
	case f.wait:
		return leaving(ctx, err, s.pipeline.waiting(), "wait for them again with the same command and "+again)
	case err != nil && ctx.Err() != nil:
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

// writeID writes the id of a line's job.
func (s *fileSubmit) writeID(r endedLine) error {
	if s.g.JSON {
		return view.WriteWritten(s.g, map[string]string{"jobId": r.job.ID})
	}
	return s.g.Printf("%s\n", r.job.ID)
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
