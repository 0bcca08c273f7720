package archive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// Verify checks the document at key, every object that it names, and every object of its chain:
// their checksums, that each continues where the previous one ends, that all entries can be
// applied, and that checkpoints, and the state in the document, equal the state that the log
// before them leads to. The report lists the problems. Verify returns an error only if it
// cannot continue: an error of the store, or one that wraps storage.ErrNotFound if there is no
// document. It reads everything twice, and keeps two states in memory.
func Verify(ctx context.Context, bucket storage.Bucket, key string) (*Report, error) {
	o, err := bucket.Get(ctx, key)
	if err != nil {
		return nil, fmt.Errorf("verify %q: %w", key, err)
	}
	v := newVerifier(bucket, key)
	doc, err := document.Decode(o.Data)
	if err != nil {
		v.note(key, fmt.Errorf("%w: %w", ErrDamaged, err))
		return v.report, nil
	}
	if err := v.document(ctx, doc); err != nil {
		return nil, fmt.Errorf("verify %q: %w", key, err)
	}
	return v.report, nil
}

// verifier checks one document and its archive.
type verifier struct {
	bucket storage.Bucket
	report *Report
	chain  *chain          // as far as it is good
	bad    map[string]bool // keys; "" is the tail
	named  map[string]bool // keys of the document and of the objects that it names
	reader runReader
}

func newVerifier(bucket storage.Bucket, key string) *verifier {
	return &verifier{
		bucket: bucket, report: &Report{Key: key},
		bad: make(map[string]bool), named: map[string]bool{key: true, "": true},
	}
}

// note adds a problem.
func (v *verifier) note(key string, err error) {
	v.report.Problems = append(v.report.Problems, Problem{key, err, v.named[key]})
}

// object notes an error about an object, which is not used any more. It returns all other
// errors.
func (v *verifier) object(err error) error {
	var about *ObjectError
	if err == nil {
		return nil
	}
	if !errors.As(err, &about) || !errors.Is(err, ErrDamaged) && !errors.Is(err, fsm.ErrEntry) && !errors.Is(err, fsm.ErrDiverged) {
		return err
	}
	v.bad[about.Key] = true
	switch {
	case about.Key == "":
		v.note(v.report.Key, about.Err)
	case !v.named[about.Key] && errors.Is(err, storage.ErrNotFound):
		v.report.Gone = append(v.report.Gone, about.Key)
	default:
		v.note(about.Key, about.Err)
	}
	return nil
}

// blame notes that the document is damaged where it describes an object, which is intact by itself:
// err says how they differ. The object is used by its name from then on.
func (v *verifier) blame(key string, err error) {
	v.note(v.report.Key, fmt.Errorf("its description of an intact object is damaged: %w", err))
	n, _ := parseName(key)
	for i := range v.chain.sources {
		if v.chain.sources[i].key == key {
			v.chain.sources[i] = nameSource(n)
		}
	}
	for i := range v.chain.checkpoints {
		if v.chain.checkpoints[i].key == key {
			v.chain.checkpoints[i] = namePoint(n)
		}
	}
}

// intact reads an object again that differs from its description in the document, by its name.
// ok is false if it is damaged.
func intact[T any](err error, named bool, key string, read func(n name) (T, error)) (value T, ok bool) {
	n, known := parseName(key)
	if !errors.Is(err, ErrDamaged) || !named || !known {
		return value, false
	}
	value, err = read(n)
	return value, err == nil
}

// document checks everything.
func (v *verifier) document(ctx context.Context, doc *document.File) error {
	m, err := v.behind(ctx, doc)
	if err != nil {
		return err
	}
	v.root(doc, m)
	return v.artefacts(ctx, m)
}

// behind checks everything except the document.
func (v *verifier) behind(ctx context.Context, doc *document.File) (*fsm.Machine, error) {
	v.report.LSN = doc.LSN()
	var names []string
	if lineage := doc.Lineage(); lineage != "" {
		var err error
		if names, err = List(ctx, v.bucket, lineage); err != nil {
			return nil, err
		}
	}
	v.chain = newChain(doc.Lineage(), names, doc)
	v.report.Strays = len(v.chain.strays)
	if a := doc.Archive; a != nil {
		v.named[a.Checkpoint.Key] = true
		for i := range a.Log {
			v.named[a.Log[i].Key] = true
		}
	}
	if err := v.segmentIndexes(ctx); err != nil {
		return nil, err
	}
	if err := v.sources(ctx); err != nil {
		return nil, err
	}
	m, err := v.states(ctx)
	h := History{doc: doc, chain: v.chain}
	v.report.Spans = h.Spans()
	return m, err
}

// segmentIndexes replaces the listed segments of the chain by those of the root's segment indexes.
func (v *verifier) segmentIndexes(ctx context.Context) error {
	named := make(map[string]source)
	var plain []source
	for _, s := range v.chain.sources {
		if !IsSegmentIndex(s.key) {
			plain = append(plain, s)
			continue
		}
		v.report.SegmentIndexes++
		parts, err := readSegmentIndex(ctx, v.bucket, s)
		if again, ok := intact(err, s.ref != nil, s.key, func(n name) ([]source, error) {
			return readSegmentIndex(ctx, v.bucket, nameSource(n))
		}); ok {
			v.blame(s.key, err)
			parts, err = again, nil
		}
		if err := v.object(err); err != nil {
			return err
		}
		for _, p := range parts {
			named[p.key], v.named[p.key] = p, true
		}
	}
	for i, s := range plain {
		if p, ok := named[s.key]; ok {
			plain[i] = p
			delete(named, s.key)
		}
	}
	for _, p := range named { // not listed: it will be missed
		plain = append(plain, p)
	}
	v.chain.sources = plain
	v.chain.sort()
	return nil
}

// sources checks each segment, and keeps the intact ones.
func (v *verifier) sources(ctx context.Context) error {
	type result struct {
		opened
		wrong error // the document describes it in another way
	}
	read := func(ctx context.Context, s source) (result, error) {
		o, err := readSource(ctx, v.bucket, s)
		if again, ok := intact(err, s.ref != nil, s.key, func(n name) (opened, error) {
			return readSource(ctx, v.bucket, nameSource(n))
		}); ok {
			return result{again, err}, nil
		}
		return result{opened: o}, err
	}
	for o, err := range blob.Ahead(ctx, readAhead, slices.Clone(v.chain.sources), read) {
		if o.wrong != nil {
			v.blame(o.key, o.wrong)
		}
		if err == nil {
			err = v.entries(&o.opened)
		}
		if err := v.object(err); err != nil {
			return err
		}
	}
	v.chain = v.chain.without(v.bad)
	return nil
}

// entries decodes all entries of a source.
func (v *verifier) entries(o *opened) error {
	n := uint64(0)
	var refused error
	err := v.reader.source(o, func(e Entry) error {
		n++
		if _, err := fsm.DecodeEntry(e.Data); err != nil {
			refused = &ObjectError{o.key, fmt.Errorf("entry %s: %w", e.LSN, err)}
		}
		return refused
	})
	if refused != nil {
		err = refused
	}
	if o.segment != nil {
		v.report.Segments++
		v.report.Bytes += int64(len(o.segment.frame))
	}
	v.report.Entries += n
	return err
}

// states replays the log from the oldest checkpoint, through all others, to its end, and
// compares the states. An object that does not fit is not used any more, nor are the objects
// after it up to the next checkpoint.
func (v *verifier) states(ctx context.Context) (m *fsm.Machine, err error) {
	for _, p := range v.chain.checkpoints {
		b, err := readCheckpoint(ctx, v.bucket, p, 0)
		if again, ok := intact(err, p.named != nil, p.key, func(n name) (*fsm.Machine, error) {
			return readCheckpoint(ctx, v.bucket, namePoint(n), 0)
		}); ok {
			v.blame(p.key, err)
			b, err = again, nil
			p.lsn = b.LSN()
		}
		if err := v.object(err); err != nil {
			return nil, err
		}
		if b == nil {
			continue
		}
		if !p.isOrigin() {
			v.report.Checkpoints++
		}
		if m, err = v.advance(ctx, m, p.lsn); err != nil {
			return nil, err
		}
		if m == nil || m.LSN() != p.lsn { // nothing leads here
			m = b
			continue
		}
		if m.View().Hash() != b.View().Hash() {
			v.bad[p.key] = true
			v.note(p.key, fmt.Errorf("%w: the checkpoint differs from the state that the log before it leads to", ErrDamaged))
		}
	}
	v.chain = v.chain.without(v.bad)
	return v.advance(ctx, m, everything.lsn)
}

// advance replays the log from the state of m, at most up to an LSN. It returns nil if an entry
// does not fit its state.
func (v *verifier) advance(ctx context.Context, m *fsm.Machine, to fsm.LSN) (*fsm.Machine, error) {
	if m == nil {
		return nil, nil
	}
	path, _ := v.chain.cover(m.LSN(), to)
	err := replay(ctx, v.bucket, m, path, limit{lsn: to, at: everything.at})
	if err == nil {
		return m, nil
	}
	if err = v.object(err); err == nil {
		v.chain = v.chain.without(v.bad)
	}
	return nil, err
}

// root compares the header of the document with the state at the end of the log.
func (v *verifier) root(doc *document.File, m *fsm.Machine) {
	if doc.Header == nil {
		if _, err := doc.Legacy(); err != nil {
			v.note(v.report.Key, err)
		}
		return
	}
	switch {
	case m == nil || m.LSN() != doc.LSN():
		if len(v.report.Problems) == 0 {
			v.note(v.report.Key, fmt.Errorf("%w: the archive has no checkpoint and log that lead to its state %s", ErrDamaged, doc.LSN()))
		}
	case !doc.Header.Describes(m):
		v.note(v.report.Key, fmt.Errorf("%w: the description differs from the state that the log leads to", ErrDamaged))
	}
}

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

	// The number of checked objects in the chain, and their contents.
	Checkpoints, Segments, SegmentIndexes int
	Bytes                                 int64 // of the segments' entries, compressed
	Entries                               uint64

	// Artefacts is the number of artefacts of jobs in the newest state, and Unknown lists objects of artefacts that the state does not have.
	Artefacts int
	Unknown   []string

	// Spans is the restorable history, without damaged objects.
	Spans []Span
	// Problems, in the order of the history.
	Problems []Problem
	// Gone lists objects that were listed but that no other object names, and that are missing
	// or incomplete now: a collector is deleting them, or a writer did not finish them. Their
	// states are not in Spans.
	Gone []string
	// Strays is the number of objects outside of the chain: of failed attempts, of replaced leaders, or
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
