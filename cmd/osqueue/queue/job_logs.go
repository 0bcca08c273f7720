package queue

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func newJobLogsCommand(g *view.Globals) *cobra.Command {
	follow := false
	cmd := &cobra.Command{
		Use:   "logs ID",
		Short: "Print the log of a job, and follow its attempts and progress",
		Long: `Prints the errors of the failed attempts, which contain the end of their logs, and the
log of the attempt that completed the job.

With --follow the command prints attempts, progress and the log as they happen, until
the job has ended. It begins with the events that the nodes keep, and up to 16 KiB of
the running attempt's log. A line appears about half a second after the job has written
it. The output continues over attempts, and if a worker or a node dies: no line is
printed twice, and a note shows how many bytes are missing if the job writes more than
about 64 KiB a second. The exit status is that of osqueue job wait: 0 if
the job completed, 1 if it is dead, cancelled or expired. With --json each line is an event (parts
of the log have the kind job.log), and the last line is the job.`,
		Example: `  osqueue job logs 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11
  osqueue job logs report-7 --follow`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				if follow {
					return followJob(ctx, g, c, args[0])
				}
				job, err := readJob(ctx, g, c, args[0])
				if err != nil {
					return err
				}
				return showLogs(g, job, nil)
			})
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print attempts, progress and the log as they happen, until the job has ended")
	return cmd
}

// readJob is Client.Job. A part that cannot be decrypted is a warning.
func readJob(ctx context.Context, g *view.Globals, c *client.Client, id string) (v1.Job, error) {
	job, err := c.Job(ctx, id)
	if errors.As(err, new(*client.SealError)) {
		return job, view.WritePlain(g.Err, err.Error()+"\n")
	}
	return job, err
}

// endLogs prints what was not followed of the logs of a job that has ended, and returns an error
// if it did not complete.
func endLogs(g *view.Globals, job v1.Job, seen followed) error {
	if err := showLogs(g, job, seen); err != nil {
		return err
	}
	if job.Status != v1.StatusCompleted {
		return &client.JobError{Job: job}
	}
	return nil
}

// showLogs prints the errors and the log of a job, except what was followed.
func showLogs(g *view.Globals, job v1.Job, seen followed) error {
	var b strings.Builder
	for _, a := range job.History {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", a.Number, a.End, wholeLines(view.PlainOrSealed(seen.restOfError(a.Number, a.Error))))
	}
	if job.Log != "" {
		fmt.Fprintf(&b, "attempt %d  %s\n%s", job.Attempts, job.Status, wholeLines(view.PlainOrSealed(seen.restOfLog(job.Attempts, job.Log))))
	}
	return g.Print(job, "%s", b.String())
}

// endKinds are the events after which a job may have ended. A job that was retried since has
// not, and one whose end the nodes do not hold any more may have.
var endKinds = []string{v1.EventCompleted, v1.EventDead, v1.EventCancelled, v1.EventExpired, v1.EventRemoved, v1.EventGap}

// news is one message to a follower: an event, or a chunk of a log, or the end of the chunks.
type news struct {
	event *v1.Event
	chunk *v1.LogChunk
	err   error
}

// follower prints the events and the log of a job until it has ended.
type follower struct {
	g  *view.Globals
	c  *client.Client
	id string

	seen    followed
	within  bool // the last output is within a line
	written bool // the chunks have ended
	events  bool // the events have reported the end
}

// followJob prints the events and the log of a job until it has ended, then what is missing of
// its logs.
func followJob(ctx context.Context, g *view.Globals, c *client.Client, id string) error {
	job, err := readJob(ctx, g, c, id)
	if err != nil {
		return err
	}
	if client.Finished(job.Status) {
		return endLogs(g, job, nil)
	}
	f := &follower{g: g, c: c, id: id, seen: make(followed)}
	ctx, stop := context.WithCancel(ctx)
	var sources sync.WaitGroup
	defer sources.Wait()
	defer stop()
	all := make(chan news)
	sources.Go(func() { f.readEvents(ctx, all) })
	sources.Go(func() { f.readChunks(ctx, all) })
	for {
		select {
		case n := <-all:
			if ended, err := f.take(ctx, n); ended || err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (f *follower) readEvents(ctx context.Context, all chan<- news) {
	for e, err := range f.c.Events(ctx, client.EventOptions{JobID: f.id, After: firstEvent}) {
		select {
		case all <- news{event: &e, err: err}:
		case <-ctx.Done():
			return
		}
	}
}

// readChunks reads the log, and then reports its end without a chunk.
func (f *follower) readChunks(ctx context.Context, all chan<- news) {
	n := news{}
	for chunk, err := range f.c.FollowLogs(ctx, f.id) {
		if err != nil {
			n.err = err
			break
		}
		select {
		case all <- news{chunk: &chunk}:
		case <-ctx.Done():
			return
		}
	}
	select {
	case all <- n:
	case <-ctx.Done():
	}
}

// take prints one item. ended is true when the job has ended and all was printed.
func (f *follower) take(ctx context.Context, n news) (ended bool, err error) {
	switch {
	case n.chunk != nil:
		return false, f.show(n.chunk)
	case n.event == nil:
		f.written = true
		if n.err != nil && !client.IsNotFound(n.err) {
			if err := view.WritePlain(f.g.Err, "the log cannot be followed and is printed at the end: "+n.err.Error()+"\n"); err != nil {
				return false, err
			}
		}
	case n.err != nil:
		return false, unlessStopped(ctx, n.err)
	default:
		if err := f.endLine(); err != nil {
			return false, err
		}
		if err := showEvent(f.g, *n.event); err != nil {
			return false, err
		}
		f.events = f.events || slices.Contains(endKinds, n.event.Kind)
	}
	if !f.events || !f.written && n.event == nil {
		return false, nil
	}
	return f.atEnd(ctx)
}

// atEnd ends if the job has ended and its log was read.
func (f *follower) atEnd(ctx context.Context) (ended bool, err error) {
	job, err := readJob(ctx, f.g, f.c, f.id)
	if err != nil {
		return false, err
	}
	if !client.Finished(job.Status) {
		f.events = false
		return false, nil
	}
	if !f.written {
		return false, nil // the server ends the log, as the job has ended
	}
	if err := f.endLine(); err != nil {
		return false, err
	}
	return true, endLogs(f.g, job, f.seen)
}

// logEvent is a part of a log in the form of an event.
type logEvent struct {
	Kind  string `json:"kind"`
	JobID string `json:"jobId"`
	v1.LogChunk
}

// kindLog is the kind of a logEvent.
const kindLog = "job.log"

// show prints a chunk.
func (f *follower) show(chunk *v1.LogChunk) error {
	f.seen.add(chunk)
	if f.g.JSON {
		return f.g.WriteJSON(logEvent{Kind: kindLog, JobID: f.id, LogChunk: *chunk})
	}
	if chunk.Lost > 0 {
		if err := f.endLine(); err != nil {
			return err
		}
		if err := f.g.Printf("… %d bytes of the log are missing here\n", chunk.Lost); err != nil {
			return err
		}
	}
	if chunk.Text == "" {
		return nil
	}
	text := chunk.Text
	if client.IsSealedText(text) {
		text = wholeLines(view.PlainOrSealed(text))
	}
	f.within = text[len(text)-1] != '\n'
	return f.g.Printf("%s", text)
}

// endLine ends a line that the log has not ended yet.
func (f *follower) endLine() error {
	if !f.within || f.g.JSON {
		return nil
	}
	f.within = false
	return f.g.Printf("\n")
}

// followed has the end of what was printed of the log of each attempt, so that the log that is
// stored with the job is not printed again.
type followed map[int32]string

// followedMax bounds the kept end of an attempt, in bytes: a stored log has 16 KiB.
const followedMax = 16 << 10

// add records a chunk that was printed.
func (f followed) add(chunk *v1.LogChunk) {
	text := f[chunk.Attempt] + chunk.Text
	f[chunk.Attempt] = text[max(len(text)-followedMax, 0):]
}

// restOfError returns the text of a failure without the log at its end, if that was printed.
func (f followed) restOfError(attempt int32, text string) string {
	tail := strings.TrimSpace(f[attempt])
	if tail == "" {
		return text
	}
	for i := 0; ; {
		if log := strings.TrimSpace(strings.TrimPrefix(text[i:], "…")); log != "" && strings.HasSuffix(tail, log) {
			return strings.TrimSuffix(text[:i], ": ")
		}
		next := strings.Index(text[i:], ": ")
		if next < 0 {
			return text
		}
		i += next + len(": ")
	}
}

// leastOverlap is the number of equal bytes from which the beginning of a cut log counts as
// printed.
const leastOverlap = 64

// restOfLog returns the part of a stored log that was not printed.
func (f followed) restOfLog(attempt int32, text string) string {
	tail := strings.TrimRight(f[attempt], "\n")
	log, cut := strings.CutPrefix(text, "…")
	switch {
	case tail == "":
		return text
	case strings.HasSuffix(strings.TrimSpace(tail), strings.TrimSpace(log)):
		return ""
	case strings.HasPrefix(log, tail):
		return strings.TrimPrefix(log[len(tail):], "\n")
	}
	for n := min(len(log), len(tail)); cut && n >= leastOverlap; n-- {
		if strings.HasSuffix(tail, log[:n]) {
			return strings.TrimPrefix(log[n:], "\n")
		}
	}
	return text
}
