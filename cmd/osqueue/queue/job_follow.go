package queue

import (
	"context"
	"slices"
	"sync"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// endKinds are the events after which a job may have ended. A job that was retried since has
// not, and one whose end the nodes do not hold any more may have.
var endKinds = []string{v1.EventCompleted, v1.EventDead, v1.EventCancelled, v1.EventRemoved, v1.EventGap}

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
		text = lines(view.PlainOrSealed(text))
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
