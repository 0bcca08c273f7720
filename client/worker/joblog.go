package worker

import (
	"strings"
	"sync"
)

// maxLogText bounds the stored log of an attempt, in bytes; the server refuses more.
const maxLogText = 16 << 10

// leastLogText is the minimum number of free bytes for which a report quotes a log.
const leastLogText = 64

// attemptLog is the end of a handler's log.
type attemptLog struct {
	mu  sync.Mutex
	buf []byte // up to twice as much as is kept
	cut bool   // something is missing before it
}

// Log adds one or several lines to the log of the attempt. The last 16 KiB of a log are kept.
// The report of the attempt carries the log: in addition to the result, or after the text of
// the error. If the job is released, the log is dropped. Log is safe for concurrent use; lines
// after the handler has returned are lost.
func (j Job) Log(text string) {
	if j.log != nil {
		j.log.add(text)
	}
}

func (l *attemptLog) add(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if over := len(text) - maxLogText; over > 0 {
		text, l.cut = text[over:], true
	}
	if len(l.buf) > 0 {
		l.buf = append(l.buf, '\n')
	}
	l.buf = append(l.buf, text...)
	if over := len(l.buf) - maxLogText; over > maxLogText {
		l.buf, l.cut = append(l.buf[:0], l.buf[over:]...), true
	}
}

func (l *attemptLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return endOf(string(l.buf), maxLogText, l.cut)
}

// endOf returns the end of a text, at most limit bytes, as valid text for JSON. If the
// beginning is missing, or cut says so, the end is marked.
func endOf(text string, limit int, cut bool) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if len(text) <= limit && !cut {
		return text
	}
	const mark = "…"
	text = text[max(len(text)-limit+len(mark), 0):]
	return mark + strings.ToValidUTF8(text, "") // without the rest of a rune
}

// A LoggedError is an error of a handler with the end of a log that explains it, such as
// the stderr of a command. If the worker has ended the attempt, the failure quotes the
// log and not the error that followed from the end.
type LoggedError struct {
	Err error
	Log string
}

// Error returns the text of the error and the log.
func (e *LoggedError) Error() string { return e.Err.Error() + ": " + e.Log }

// Unwrap returns Err.
func (e *LoggedError) Unwrap() error { return e.Err }

// with adds the log of the attempt to its report. A failure has it after the text of the error,
// as far as it fits.
func (r report) with(log string) report {
	switch {
	case log == "" || r.outcome == Released:
	case r.outcome == Completed:
		r.log = log
	default:
		const between = ": "
		if room := maxErrorText - len(r.failure.Error) - len(between); room >= leastLogText {
			r.failure.Error += between + endOf(log, room, false)
		}
	}
	return r
}
