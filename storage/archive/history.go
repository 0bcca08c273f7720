package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

// ErrNotKept is wrapped by History.At for a state that cannot be restored: it is before the
// retained history, in a hole of it, or after its end.
var ErrNotKept = errors.New("that state is not kept")

// History lists the states that can be restored from a bucket: the state of its document, and
// the states before it. It is a view of the bucket at the time when it was opened. The objects
// that it refers to may be collected later. It is safe for concurrent use.
type History struct {
	bucket storage.Bucket
	key    string // of doc
	doc    *document.File
	names  []string // of the lineage's objects
	chain  *chain
	most   int64 // as limit.most
}

// Open reads the document at key and lists the objects of its history. The error wraps
// storage.ErrNotFound if there is no document, and ErrDamaged if it cannot be read.
func Open(ctx context.Context, bucket storage.Bucket, key string) (*History, error) {
	return open(ctx, bucket, key)
}

// open is Open. The history has the objects of earlier documents of the lineage, too.
func open(ctx context.Context, bucket storage.Bucket, keys ...string) (*History, error) {
	var docs []*document.File
	for _, key := range keys {
		o, err := bucket.Get(ctx, key)
		if err != nil {
			return nil, fmt.Errorf("open the history of %q: %w", key, err)
		}
		doc, err := document.Decode(o.Data)
		if err != nil {
			return nil, fmt.Errorf("open the history of %q: %w: %w", key, ErrDamaged, err)
		}
		docs = append(docs, doc)
	}
	h := &History{bucket: bucket, key: keys[0], doc: docs[0]}
	var names []string
	if lineage := h.doc.Lineage(); lineage != "" {
		var err error
		if names, err = List(ctx, bucket, lineage); err != nil {
			return nil, fmt.Errorf("open the history of %q: %w", h.key, err)
		}
	}
	h.names, h.chain = names, newChain(h.doc.Lineage(), names, docs...)
	return h, nil
}

// Within returns the history with a bound for the memory that a state takes, in bytes: At
// returns ErrTooLarge for a larger one. The size is an estimate.
func (h *History) Within(most int64) *History {
	bounded := *h
	bounded.most = most
	return &bounded
}

// ErrTooLarge is wrapped by History.At for a state that takes more memory than Within allows.
var ErrTooLarge = errors.New("the state is too large")

// jobBytes is about the memory of a job without its payload, result and log.
const jobBytes = 1 << 10

// checkSize returns an error if a state of that many bytes and jobs is larger than most.
func checkSize(bytes int64, jobs int, most int64) error {
	if size := bytes + int64(jobs)*jobBytes; most > 0 && size > most {
		return fmt.Errorf("%w: %d jobs need about %d bytes of memory; at most %d are allowed", ErrTooLarge, jobs, size, most)
	}
	return nil
}

func checkState(m *fsm.Machine, most int64) error {
	if most == 0 {
		return nil
	}
	return checkSize(m.Bytes(), m.Counts().Sum(), most)
}

// Key returns the key of the document.
func (h *History) Key() string { return h.key }

// Document returns the document as it was read. The caller must not change it.
func (h *History) Document() *document.File { return h.doc }

// Target selects a state: the newest one that is not past it. The zero Target selects the state
// of the document.
type Target struct {
	LSN  fsm.LSN
	Time time.Time // by the machine's clock
}

// limit returns the limit at which a replay for t stops.
func (t Target) limit() limit {
	to := everything
	if !t.LSN.IsZero() {
		to.lsn = t.LSN
	}
	if !t.Time.IsZero() {
		to.at = t.Time.UnixMilli()
	}
	return to
}

// At returns the state at a target. By LSN it is the state after the entry of that LSN or, if
// the LSN is between two entries, after the first of the two. By time it is the newest state
// whose clock is not past that time. The state's own clock says how much older it is; the
// difference can be large in a hole of the history. The error wraps ErrNotKept, or is one of
// Machine's.
func (h *History) At(ctx context.Context, t Target) (*fsm.Machine, error) {
	to := t.limit()
	if h.isNewest(to) {
		return machineWithin(ctx, h.bucket, h.doc, h.most)
	}
	to.most = h.most
	p, path, err := h.plan(to)
	if err != nil && !t.LSN.IsZero() {
		if q, beside, failed := h.beside(t.LSN).plan(to); failed == nil {
			p, path, err = q, beside, nil
		}
	}
	if err != nil {
		return nil, err
	}
	m, err := readCheckpoint(ctx, h.bucket, p, h.most)
	if p.named == nil && errors.Is(err, storage.ErrNotFound) { // Verify counts it as gone
		return nil, fmt.Errorf("%w: its checkpoint is being deleted, or was never finished: %s", ErrNotKept, p.key)
	}
	if err != nil {
		return nil, err
	}
	if err := replay(ctx, h.bucket, m, path, to); err != nil {
		return nil, err
	}
	if meta := m.Meta(); !t.Time.IsZero() && meta.NowMs == 0 {
		err := fmt.Errorf("%w: the queue did not exist yet", ErrNotKept)
		if first, failed := h.Beginning(ctx); failed == nil && !first.IsZero() {
			err = fmt.Errorf("%w; the first state is of %s", err, first.UTC().Format("2006-01-02T15:04:05.000Z07:00"))
		}
		return nil, err
	}
	return m, nil
}

// Beginning returns the clock at the first entry of the queue, if the history has it, or a
// zero Time. It reads one object.
func (h *History) Beginning(ctx context.Context) (first time.Time, err error) {
	if len(h.chain.checkpoints) == 0 || h.chain.checkpoints[0].at != 0 {
		return first, nil
	}
	from := h.chain.checkpoints[0].lsn
	path, _ := h.chain.cover(from, everything.lsn)
	path, err = expand(ctx, h.bucket, path, from, everything.lsn)
	if err != nil || len(path) == 0 {
		return first, err
	}
	o, err := readSource(ctx, h.bucket, path[0])
	if err != nil {
		return first, err
	}
	var r replayer
	_ = r.source(&o, func(e Entry) error { // errStop, or there is no first entry
		if e.LSN.Compare(from) <= 0 {
			return nil
		}
		if e.At != 0 {
			first = time.UnixMilli(e.At)
		}
		return errStop
	})
	return first, nil
}

// isNewest reports whether the state of the document is the wanted one.
func (h *History) isNewest(to limit) bool {
	switch {
	case to == everything:
		return true
	case to.lsn == everything.lsn:
		return to.at >= h.doc.Now()
	}
	return to.lsn == h.doc.LSN() && to.at >= h.doc.Now()
}

// plan returns the checkpoint and the sources from which a state before the newest is rebuilt.
func (h *History) plan(to limit) (p point, path []source, err error) {
	p, ok := h.chain.checkpointUpTo(to)
	if !ok {
		return p, nil, fmt.Errorf("%w: %s", ErrNotKept, h.kept())
	}
	path, end := h.chain.cover(p.lsn, to.lsn)
	if end.Compare(to.lsn) < 0 && to.lsn != everything.lsn {
		return p, nil, fmt.Errorf("%w: the log that leads to %s ends at %s; %s", ErrNotKept, to.lsn, end, h.kept())
	}
	past := slices.IndexFunc(path, func(s source) bool { return s.until > to.at })
	if past >= 0 {
		path = path[:past+1] // the limit is in there
	}
	return p, path, nil
}

// kept describes the kept history in short.
func (h *History) kept() string {
	spans := h.Spans()
	if len(spans) == 0 {
		return "nothing is kept but the document"
	}
	first, last := spans[0], spans[len(spans)-1]
	since := "the beginning of the queue"
	if first.Since.UnixMilli() != 0 {
		since = first.Since.UTC().Format(time.RFC3339)
	}
	text := fmt.Sprintf("the bucket has the states from LSN %s (%s) to LSN %s (%s)", first.From, since, last.To, last.Until.UTC().Format(time.RFC3339))
	if holes := len(spans) - 1; holes > 0 {
		text += fmt.Sprintf(", except in %d holes of the history (GET /v1/past, osqueue inspect --history)", holes)
	}
	return text
}

// Span is a contiguous piece of history: every state from one LSN up to another, both included,
// can be restored.
type Span struct {
	From, To     fsm.LSN
	Since, Until time.Time // the machine's clock at these
}

// Spans returns the restorable history, oldest first, with a hole between two spans. It goes by
// names: a damaged object counts as intact.
func (h *History) Spans() []Span {
	if h.doc.Header == nil {
		now := time.UnixMilli(h.doc.Now())
		return []Span{{Since: now, Until: now}}
	}
	return h.chain.spans()
}

func (l *chain) spans() []Span {
	var spans []Span
	for _, p := range l.checkpoints {
		if last := len(spans) - 1; last >= 0 && p.lsn.Compare(spans[last].To) <= 0 {
			continue
		}
		at := p.at
		path, end := l.cover(p.lsn, everything.lsn)
		if len(path) > 0 {
			at = path[len(path)-1].until
		}
		spans = append(spans, Span{p.lsn, end, time.UnixMilli(p.at), time.UnixMilli(at)})
	}
	return spans
}

// Newest returns the newest LSN at which a segment or a checkpoint of a lineage ends, or a zero
// LSN. It can be later than that of the document: a leader writes objects before the document
// names them, and an older copy of the document can be put back.
func Newest(ctx context.Context, bucket storage.Bucket, lineage string) (newest fsm.LSN, err error) {
	err = each(ctx, bucket, lineage, func(i storage.Info) bool {
		n, ok := parseName(i.Key)
		if ok && (n.kind == segmentKind || n.kind == manifestKind) && n.last.Compare(newest) > 0 {
			newest = n.last
		}
		return true
	})
	return newest, err
}

// beside returns the history that ends at an LSN which is not in the history of the document,
// because a later document does not follow from it.
func (h *History) beside(lsn fsm.LSN) *History {
	other := *h
	other.chain = newChain(h.chain.lineage, h.names, &document.File{Header: &document.Header{Term: lsn.Term, Index: lsn.Index}})
	return &other
}
