package work

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/cmd/osqueue/view"
)

// jobLines writes one line for each finished job. It is safe for concurrent use.
type jobLines struct {
	g     *view.Globals
	quiet bool

	mu      sync.Mutex
	started map[uint64]time.Time // by the token of the claim
	err     error                // the first one of writing
}

func newJobLines(g *view.Globals, quiet bool) *jobLines {
	return &jobLines{g: g, quiet: quiet, started: make(map[uint64]time.Time)}
}

// jobLine is the JSON form of a line.
type jobLine struct {
	JobID     string          `json:"jobId"`
	Type      string          `json:"type,omitzero"`
	Attempt   int             `json:"attempt"`
	Outcome   worker.Outcome  `json:"outcome"`
	TookMs    int64           `json:"tookMs"` // duration of the command, without the report
	Worker    string          `json:"worker"`
	Token     uint64          `json:"token"`
	StartedAt int64           `json:"startedAt,omitzero"` // of the command, in ms; absent if it was not run
	EndedAt   int64           `json:"endedAt"`            // when the cluster had answered the report
	Result    json.RawMessage `json:"result,omitzero"`
	Error     string          `json:"error,omitzero"`
	TraceID   string          `json:"traceId,omitzero"` // of the job's traceparent
}

// fault returns the write error because of which lines are missing.
func (l *jobLines) fault() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// noteStart wraps a handler and records when it begins.
func (l *jobLines) noteStart(h worker.HandlerFunc) worker.HandlerFunc {
	return func(ctx context.Context, job worker.Job) (json.RawMessage, error) {
		l.mu.Lock()
		l.started[job.Token] = time.Now()
		l.mu.Unlock()
		return h(ctx, job)
	}
}

func (l *jobLines) finished(f worker.Finished) {
	l.mu.Lock()
	defer l.mu.Unlock()
	started := l.started[f.Job.Token]
	delete(l.started, f.Job.Token)
	if l.quiet {
		return
	}
	err := l.write(f, started, time.Now())
	if l.err == nil {
		l.err = err
	}
}

func (l *jobLines) write(f worker.Finished, started, ended time.Time) error {
	reason := ""
	if f.Err != nil {
		reason = f.Err.Error()
	}
	trace := v1.TraceID(f.Job.Headers[v1.HeaderTraceparent])
	if l.g.JSON {
		line := jobLine{
			JobID: f.Job.ID, Type: f.Job.Type, Attempt: f.Job.Attempt, Outcome: f.Outcome, TookMs: f.Took.Milliseconds(),
			Worker: f.Job.Worker, Token: f.Job.Token, EndedAt: ended.UnixMilli(), Result: f.Result, Error: reason, TraceID: trace,
		}
		if !started.IsZero() {
			line.StartedAt = started.UnixMilli()
		}
		return l.g.WriteJSON(line)
	}
	line := fmt.Sprintf("%-10s %s  %s  attempt %d  %s", f.Outcome, f.Job.ID, view.OrDash(f.Job.Type), f.Job.Attempt, view.Short(f.Took))
	if trace != "" {
		line += "  trace_id=" + trace
	}
	if reason != "" {
		line += "  " + view.FirstLine(reason)
	}
	return view.Write(l.g.Out, view.PlainLine(line)+"\n")
}
