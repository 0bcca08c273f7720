package worker

import (
	"io"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"
)

// maxLogText bounds the stored log of an attempt, in bytes; the server refuses more.
const maxLogText = 16 << 10

// leastLogText is the minimum number of free bytes for which a report quotes a log.
const leastLogText = 64

// attemptLog is the end of what an attempt has written. It is a ring in effect: of its at most
// twice maxLogText bytes, the older half is dropped when it is full.
type attemptLog struct {
	began func() // called when there are new bytes to send; must not block; nil: the log is not sent

	mu      sync.Mutex
	buf     []byte // valid UTF-8 except for a rune that was cut at its beginning
	written int64  // bytes so far: the offset of the end of buf
	cut     bool   // something is missing before it
	stored  *string
	partial []byte // the beginning of a rune, of writer

	sent    int64 // the cluster has what was written before it
	watched bool
}

// Log adds one or several lines to the log of the attempt. Readers that follow the job see
// them within about a second. The last 16 KiB of a log are kept for the report of the attempt: in
// addition to the result, or after the text of the error. If the job is released, the log is
// dropped. Log is safe for concurrent use; lines after the handler has returned are lost.
func (j Job) Log(text string) {
	if j.log != nil {
		j.log.add(text)
	}
}

// LogWriter returns a writer to the log of the attempt, for example for the stderr of a
// command. Its writes need not be lines, and never fail. It is safe for concurrent use with
// Log and other writers, whose texts then begin on new lines.
func (j Job) LogWriter() io.Writer {
	if j.log == nil {
		return io.Discard
	}
	return j.log
}

// SetLog replaces the log that the report of the attempt has. Readers that
// follow the job still see what was written.
func (j Job) SetLog(text string) {
	if j.log == nil {
		return
	}
	j.log.mu.Lock()
	defer j.log.mu.Unlock()
	j.log.stored = &text
}

// add adds lines.
func (l *attemptLog) add(text string) {
	l.mu.Lock()
	if over := len(text) - maxLogText; over > 0 {
		text, l.cut, l.written = text[over:], true, l.written+int64(over)
		l.buf = l.buf[:0]
	}
	if n := len(l.buf); n > 0 && l.buf[n-1] != '\n' {
		l.appendLocked("\n")
	}
	l.appendLocked(strings.ToValidUTF8(text, "\uFFFD"))
	if !strings.HasSuffix(text, "\n") {
		l.appendLocked("\n")
	}
	l.mu.Unlock()
	l.notify()
}

// Write implements io.Writer. It holds a rune back until all of its bytes are written.
func (l *attemptLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	text := slices.Concat(l.partial, p)
	n := len(text) - cutRune(text)
	l.partial = slices.Clone(text[n:])
	if over := n - maxLogText; over > 0 {
		l.cut, l.written = true, l.written+int64(over)
		l.buf = l.buf[:0]
		text, n = text[over:], maxLogText
	}
	l.appendLocked(strings.ToValidUTF8(string(text[:n]), "\uFFFD"))
	l.mu.Unlock()
	l.notify()
	return len(p), nil
}

// cutRune returns the number of bytes at the end of text that begin a rune and do not end it.
func cutRune(text []byte) int {
	for n := 1; n < utf8.UTFMax && n <= len(text); n++ {
		if tail := text[len(text)-n:]; utf8.RuneStart(tail[0]) {
			if utf8.FullRune(tail) {
				return 0
			}
			return n
		}
	}
	return 0
}

func (l *attemptLog) appendLocked(text string) {
	l.buf = append(l.buf, text...)
	l.written += int64(len(text))
	// One byte more than is stored: the line break at the end.
	if over := len(l.buf) - maxLogText - 1; over > maxLogText {
		l.buf, l.cut = append(l.buf[:0], l.buf[over:]...), true
	}
}

func (l *attemptLog) notify() {
	if l.began != nil {
		l.began()
	}
}

// text returns the log for the report.
func (l *attemptLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.stored != nil {
		return endOf(*l.stored, maxLogText, false)
	}
	return endOf(strings.TrimSuffix(string(l.buf), "\n"), maxLogText, l.cut)
}

// since returns up to limit bytes of what was written from an offset on, and the offset of the
// first of them. Older bytes may be gone.
func (l *attemptLog) since(offset int64, limit int) (from int64, text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	first := l.written - int64(len(l.buf))
	from = min(max(offset, first), l.written)
	part := l.buf[from-first:]
	for len(part) > 0 && !utf8.RuneStart(part[0]) {
		part, from = part[1:], from+1
	}
	if len(part) > limit {
		part = part[:limit]
		part = part[:len(part)-cutRune(part)]
	}
	return from, strings.ToValidUTF8(string(part), "?") // a byte for a byte; there is none
}

// ahead reports whether there are bytes after those that the cluster has.
func (l *attemptLog) ahead() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written > l.sent
}

// follow records whether the log is followed, and up to which offset the cluster has it.
func (l *attemptLog) follow(watched bool, sent int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.watched, l.sent = watched, sent
}

// unsent returns what a followed log has that the cluster has not, or "".
func (l *attemptLog) unsent(limit int) (from int64, text string) {
	l.mu.Lock()
	watched, sent := l.watched, l.sent
	l.mu.Unlock()
	if !watched {
		return 0, ""
	}
	return l.since(sent, limit)
}

// empty reports whether nothing was written.
func (l *attemptLog) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.written == 0
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
	Err error  // the error of the handler
	Log string // the end of the log
}

// Error returns the text of the error and the log.
func (e *LoggedError) Error() string { return e.Err.Error() + ": " + e.Log }

// Unwrap returns Err.
func (e *LoggedError) Unwrap() error { return e.Err }
