package worker

import (
	"context"
	"time"

	"osqueue/client"
	"osqueue/client/internal/sleep"
)

const (
	// logWait is how long a call waits for a follower.
	logWait = 20 * time.Second
	// logGap is the least time between two calls with parts, and logLook the longest one
	// while a reader follows: the answers say when none does any more.
	logGap, logLook = 200 * time.Millisecond, time.Second
	// logBytes bounds the texts of one call.
	logBytes = 256 << 10
	// lastLogTime bounds the call before a report.
	lastLogTime = time.Second
	// logPause is the wait after a call that failed.
	logPause = time.Second
)

// logSender sends what the running jobs write, while a reader follows them. One goroutine,
// run, asks the cluster and sends; flush sends the rest of a job before its report.
type logSender struct {
	s    *session
	more chan struct{} // has a token when a job has written
}

// wake lets run look at the logs.
func (l *logSender) wake() { sleep.Wake(l.more) }

// run asks for followers while a running job has a log, and sends while there are any, until
// ctx ends.
func (l *logSender) run(ctx context.Context) {
	for ctx.Err() == nil {
		if len(l.written()) == 0 {
			select {
			case <-l.more:
			case <-ctx.Done():
			}
			continue
		}
		wanted, ok := l.call(ctx, nil, logWait)
		for ok && len(wanted) > 0 && ctx.Err() == nil {
			l.rest(ctx, wanted)
			wanted, ok = l.call(ctx, l.parts(wanted), 0)
		}
	}
}

// written returns the jobs that have written something.
func (l *logSender) written() map[claimKey]*lease {
	out := make(map[claimKey]*lease)
	for _, h := range l.s.leases.all() {
		if !h.job.log.empty() {
			out[h.key()] = h
		}
	}
	return out
}

// call calls the cluster, and records what it has and wants. ok is false after a failure, which
// it has waited out.
func (l *logSender) call(ctx context.Context, parts []client.LogPart, wait time.Duration) (wanted []client.WantedLog, ok bool) {
	wanted, err := l.s.queue.SendLogs(ctx, l.s.cfg.Name, parts, wait)
	switch {
	case ctx.Err() != nil:
		return nil, false
	case err != nil:
		l.s.log.Debug("live logs were not sent", "error", err)
		sleep.For(ctx, logPause)
		return nil, false
	}
	followed := make(map[claimKey]int64, len(wanted))
	for _, w := range wanted {
		followed[claimKey{w.JobID, w.Token}] = w.Offset
	}
	for _, h := range l.s.leases.all() {
		offset, watched := followed[h.key()]
		h.job.log.follow(watched, offset)
	}
	return wanted, true
}

// rest waits for logGap, and then until a followed job has written something, but not longer than
// logLook.
func (l *logSender) rest(ctx context.Context, wanted []client.WantedLog) {
	for until := time.Now().Add(logLook); sleep.For(ctx, logGap) && time.Now().Before(until); {
		if l.ahead(wanted) {
			return
		}
	}
}

func (l *logSender) ahead(wanted []client.WantedLog) bool {
	written := l.written()
	for _, w := range wanted {
		if h := written[claimKey{w.JobID, w.Token}]; h != nil && h.job.log.ahead() {
			return true
		}
	}
	return false
}

// parts returns what the followed jobs have written and the cluster has not.
func (l *logSender) parts(wanted []client.WantedLog) (parts []client.LogPart) {
	written, bytes := l.written(), 0
	for _, w := range wanted {
		h := written[claimKey{w.JobID, w.Token}]
		if h == nil {
			continue
		}
		from, text := h.job.log.since(w.Offset, client.MaxLogChunk)
		if text == "" {
			continue
		}
		if bytes += len(text); bytes > logBytes {
			break
		}
		parts = append(parts, client.LogPart{Lease: h.job.Lease(), Offset: from, Text: text})
	}
	return parts
}

// flush sends what is left of the log of a job that a reader follows, before its report: after
// that the cluster does not take it.
func (l *logSender) flush(h *lease) {
	ctx, cancel := context.WithTimeout(l.s.reports, lastLogTime)
	defer cancel()
	for ctx.Err() == nil {
		from, text := h.job.log.unsent(client.MaxLogChunk)
		if text == "" {
			return
		}
		part := client.LogPart{Lease: h.job.Lease(), Offset: from, Text: text}
		if _, err := l.s.queue.SendLogs(ctx, l.s.cfg.Name, []client.LogPart{part}, 0); err != nil {
			l.s.about(h.job).Debug("the end of a live log was not sent", "error", err)
			return
		}
		h.job.log.follow(true, from+int64(len(text)))
	}
}
