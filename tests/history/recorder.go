package history

import (
	"bufio"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/go-json-experiment/json"
)

// Bounds of the data that is not in the file yet.
const (
	bufferBytes = 64 << 10
	bufferTime  = time.Second
)

// ErrClosed is the error of a record after Close.
var ErrClosed = errors.New("history: the recorder is closed")

// Recorder records a run while it is in progress. It is safe for concurrent use.
type Recorder struct {
	start time.Time // has the monotonic clock's reading

	mu      sync.Mutex
	out     *bufio.Writer // nil: memory only
	flushed Time
	err     error
	closed  bool
	lastID  int
	open    []*FaultSpan
	all     History
}

// NewRecorder begins a record: it writes to w, line by line, and keeps everything in memory
// too. If w is nil, it only keeps the record in memory. The start of the run is now.
func NewRecorder(w io.Writer, run Run) *Recorder {
	r := &Recorder{start: time.Now()}
	if w != nil {
		r.out = bufio.NewWriterSize(w, bufferBytes)
	}
	run.Start = r.start.UTC().Round(0)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Run = run
	r.write(line{Run: &run})
	return r
}

// Now returns the time since the start, by the monotonic clock.
func (r *Recorder) Now() Time { return Time(time.Since(r.start)) }

// At returns t, which must have a monotonic reading, as a time of the run.
func (r *Recorder) At(t time.Time) Time { return Time(t.Sub(r.start)) }

// Begin gives an operation its id and the time of its call. End it with Op.
func (r *Recorder) Begin(op Op) Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lastID++
	op.ID, op.Call = r.lastID, r.Now()
	return op
}

// Op records an operation that has ended. If Return is zero, Op sets it to the current time.
func (r *Recorder) Op(op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if op.Return == 0 {
		op.Return = r.Now()
	}
	r.all.Ops = append(r.all.Ops, op)
	r.write(line{Op: &op})
}

// Applied records lines of a node's log.
func (r *Recorder) Applied(lines ...Applied) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Applied = append(r.all.Applied, lines...)
	for i := range lines {
		r.write(line{Applied: &lines[i]})
	}
}

// Document records accepted versions of the document.
func (r *Recorder) Document(versions ...Document) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Documents = append(r.all.Documents, versions...)
	for i := range versions {
		r.write(line{Document: &versions[i]})
	}
}

// State records hashes of nodes' states.
func (r *Recorder) State(states ...State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.States = append(r.all.States, states...)
	for i := range states {
		r.write(line{State: &states[i]})
	}
}

// Final records the jobs at the end of the run.
func (r *Recorder) Final(jobs ...Final) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all.Finals = append(r.all.Finals, jobs...)
	for i := range jobs {
		r.write(line{Final: &jobs[i]})
	}
}

// History returns a copy of the record so far.
func (r *Recorder) History() *History {
	r.mu.Lock()
	defer r.mu.Unlock()
	return &History{
		Run: r.all.Run, Ops: slices.Clone(r.all.Ops), Faults: slices.Clone(r.all.Faults),
		Applied: slices.Clone(r.all.Applied), Documents: slices.Clone(r.all.Documents),
		States: slices.Clone(r.all.States), Finals: slices.Clone(r.all.Finals),
	}
}

// Flush writes the buffered lines to the writer.
func (r *Recorder) Flush() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.flush()
	return r.err
}

// Close ends all open faults and flushes. It returns the first error of writing the record. The
// caller must close the writer.
func (r *Recorder) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.open) > 0 {
		r.endFault(r.open[0])
	}
	r.flush()
	r.closed = true
	return r.err
}

// write appends a line. The caller holds the lock.
func (r *Recorder) write(l line) {
	if r.closed && r.err == nil {
		r.err = ErrClosed
	}
	if r.err != nil || r.out == nil {
		return
	}
	data, err := json.Marshal(l, json.Deterministic(true))
	if err == nil {
		_, err = r.out.Write(append(data, '\n'))
	}
	r.err = err
	// The loss by a crash of this process is bounded in time, too.
	if now := r.Now(); now-r.flushed > Time(bufferTime) {
		r.flush()
	}
}

// flush flushes. The caller holds the lock.
func (r *Recorder) flush() {
	if r.out == nil || r.err != nil {
		return
	}
	r.flushed, r.err = r.Now(), r.out.Flush()
}
