package archive

import (
	"context"
	"errors"
	"fmt"
	"math"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// everything is a limit after all entries.
var everything = limit{lsn: fsm.LSN{Term: math.MaxUint64, Index: math.MaxUint64}, at: math.MaxInt64}

// limit is where a replay stops: before the first entry that is past it.
type limit struct {
	lsn  fsm.LSN
	at   int64 // the machine's clock, ms
	most int64 // bytes of memory that the state may take; 0: no bound
}

func (l limit) passed(e *Entry) bool { return e.LSN.Compare(l.lsn) > 0 || e.At > l.at }

// replay applies the entries of the sources after the state of m, up to the limit. Each source
// continues from that state or from the end of the source before it, or begins earlier. After
// an error m is not a valid state of the queue.
func replay(ctx context.Context, bucket storage.Bucket, m *fsm.Machine, sources []source, to limit) error {
	sources, err := expand(ctx, bucket, sources, m.LSN(), to.lsn)
	if err != nil {
		return err
	}
	read := func(ctx context.Context, s source) (opened, error) { return readSource(ctx, bucket, s) }
	r := replayer{most: to.most}
	for o, err := range blob.Ahead(ctx, readAhead, sources, read) {
		if err != nil {
			return err
		}
		done, err := r.apply(m, &o, to)
		if done || err != nil {
			return err
		}
	}
	return nil
}

// replayer applies sources to a state, and compares it with the checksums in the log.
type replayer struct {
	runReader
	sums fsm.SumCheck
	most int64 // as limit.most
}

// apply applies the entries of a source after the state of m. done reports whether the limit
// was reached.
func (r *replayer) apply(m *fsm.Machine, o *opened, to limit) (done bool, err error) {
	if lsn := m.LSN(); o.after.Compare(lsn) > 0 {
		err := fmt.Errorf("%w: the log starts at %s, but the state before it is of %s", ErrDamaged, o.after, lsn)
		return false, &ObjectError{o.key, err}
	}
	var refused error
	err = r.source(o, func(e Entry) error {
		switch {
		case e.LSN.Compare(m.LSN()) <= 0:
			return nil // of a source that overlaps
		case to.passed(&e):
			done = true
			return errStop
		}
		if refused = r.entry(m, &e); refused == nil {
			refused = checkState(m, r.most)
		}
		return refused
	})
	if refused != nil { // the checksum of the object is correct: the object is not damaged
		return false, &ObjectError{o.key, refused}
	}
	return done, err
}

// errDiverged says that an entry has another effect on this machine than on the machine of its
// writer.
var errDiverged = errors.New("the entry has another effect than on the node that wrote it")

// entry applies an entry as the leader did, and checks that the machine reaches the leader's
// state.
func (r *replayer) entry(m *fsm.Machine, e *Entry) error {
	entry, err := fsm.DecodeEntry(e.Data)
	if err != nil {
		return fmt.Errorf("entry %s: %w", e.LSN, err)
	}
	if err := applyEntry(m, e.LSN, e.At, entry); err != nil {
		return err
	}
	if err := r.sums.Applied(m, entry); err != nil {
		return fmt.Errorf("entry %s: %w; this release applies the log differently than the release that wrote it, or the "+
			"checkpoint before it is wrong: use the release that wrote it, and report this", e.LSN, err)
	}
	return nil
}

func applyEntry(m *fsm.Machine, lsn fsm.LSN, at int64, entry *fsmpb.Batch) error {
	base := m.Meta().TermBase
	if lsn.Term < base {
		return fmt.Errorf("entry %s: %w: %w: its term is below that of the checkpoint, %d", lsn, ErrDamaged, errDiverged, base)
	}
	m.Apply(lsn.Index, lsn.Term-base, entry)
	if now := m.Now(); now != at {
		return fmt.Errorf("entry %s: %w: %w: the clock is %d ms after it; expected %d ms", lsn, ErrDamaged, errDiverged, now, at)
	}
	return nil
}

// Machine returns the state of a document: that of its archive, or of a legacy document. Jobs
// that were added by hand (File.View) are not in it. The error wraps ErrDamaged if an object
// that the document names differs from the one that was written, fsm.ErrDiverged if the log
// leads to another state than its checksums say, and fsm.ErrState if a legacy document
// contradicts itself. Any other error is the store's.
func Machine(ctx context.Context, bucket storage.Bucket, doc *document.File) (*fsm.Machine, error) {
	return machineWithin(ctx, bucket, doc, 0)
}

// machineWithin is Machine with the bound of a limit.
func machineWithin(ctx context.Context, bucket storage.Bucket, doc *document.File, most int64) (*fsm.Machine, error) {
	if doc.Header == nil {
		return doc.Legacy()
	}
	return load(ctx, bucket, doc.Archive, most)
}

// load returns the state that an archive leads to: its checkpoint, and all entries of its log
// and its tail applied to it. Errors are those of Machine. It keeps the state and a few
// segments in memory. most is that of a limit.
func load(ctx context.Context, bucket storage.Bucket, a *document.Archive, most int64) (*fsm.Machine, error) {
	if err := a.Check(); err != nil {
		return nil, &ObjectError{"", fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	m, err := readCheckpoint(ctx, bucket, pointOf(a), most)
	if err != nil {
		return nil, err
	}
	sources := make([]source, 0, len(a.Log)+1)
	for i := range a.Log {
		sources = append(sources, refSource(&a.Log[i]))
	}
	if a.Tail.Entries > 0 {
		sources = append(sources, tailSource(&a.Tail))
	}
	to := everything
	to.most = most
	if err := replay(ctx, bucket, m, sources, to); err != nil {
		return nil, err
	}
	if lsn := m.LSN(); lsn != a.LSN() {
		return nil, &ObjectError{"", fmt.Errorf("%w: the archive ends at %[3]s; expected %[2]s", ErrDamaged, a.LSN(), lsn)}
	}
	return m, nil
}
