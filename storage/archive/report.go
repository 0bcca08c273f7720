package archive

import (
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
)

// Problem is a fault in the bucket.
type Problem struct {
	Key string // of the object; that of the document for the document's own contents
	Err error
	// Named says that the problem is in the document or in an object that it names. Other
	// problems are in the history only.
	Named bool
}

// String returns the key of the object and the error.
func (p Problem) String() string { return fmt.Sprintf("%s: %v", p.Key, p.Err) }

// Report is the result of Verify.
type Report struct {
	Key string  // of the document
	LSN fsm.LSN // of its state

	// The number of checked objects on the line, and their contents.
	Checkpoints, Segments, SegmentIndexes int
	Bytes                                 int64 // of the segments' entries, compressed
	Entries                               uint64

	// Spans is the restorable history, without damaged objects.
	Spans []Span
	// Problems, in the order of the history.
	Problems []Problem
	// Gone lists objects that were listed but that no other object names, and that are missing
	// or incomplete now: a collector is deleting them, or a writer did not finish them. Their
	// states are not in Spans.
	Gone []string
	// Strays is the number of objects off the line: of failed attempts, of replaced leaders, or
	// old ones. They become garbage.
	Strays int
}

// OK reports whether there is no problem.
func (r *Report) OK() bool { return len(r.Problems) == 0 }

// Sound reports whether the document and all objects that it names are intact. Its history may
// still be damaged.
func (r *Report) Sound() bool {
	return !slices.ContainsFunc(r.Problems, func(p Problem) bool { return p.Named })
}

// VerifyOptions limit a verification.
type VerifyOptions struct {
	// Since limits Verify to the objects that are needed for states since then, by the
	// machine's clock. Zero means all objects.
	Since time.Time
}
