package queue

import (
	"strings"

	v1 "osqueue/client/api/v1"
)

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
