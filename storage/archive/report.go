package archive

import (
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
)

// Problem is something in the bucket that is not as it has to be.
type Problem struct {
	Key string // of the object; that of the document for what it says itself
	Err error
	// Named says that it is about the document, or about what it names. Other
	// problems are about its history only.
	Named bool
}

// String names the object and what is wrong with it.
func (p Problem) String() string { return fmt.Sprintf("%s: %v", p.Key, p.Err) }

// Report is what Verify found.
type Report struct {
	Key   string  // of the document
	LSN   fsm.LSN // of its state
	Large bool    // the state is not in the document itself

	// What was looked at: objects on the line, and in them.
	Bases, Segments, Chapters int
	Bytes                     int64 // of the segments' entries, compressed
	Entries                   uint64

	// Spans is what can be restored, without what is damaged.
	Spans []Span
	// Problems, in the order of the history.
	Problems []Problem
	// Gone are objects that nothing names and that were listed, but not there any
	// more, or not whole: they are being collected, or were never finished. What
	// they held is not in Spans.
	Gone []string
	// Strays is the number of objects beside the line: of attempts that failed, of
	// leaders that did not win, or old ones. They are garbage in time.
	Strays int
}

// OK reports whether nothing is wrong.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Sound reports whether the document is all right, and all that it names. Its
// history may still be damaged.
func (r *Report) Sound() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Named })
}

// VerifyOptions say how much is looked at.
type VerifyOptions struct {
	// Since limits Verify to what is needed for states since then, by the machine's
	// clock. Zero: everything that is there.
	Since time.Time
}
