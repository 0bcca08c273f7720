package archive

import (
	"context"
	"fmt"

	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/document"
)

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
	return loadWithin(ctx, bucket, doc.Archive, most)
}

// Load returns the state that an archive leads to: its checkpoint, and all entries of its log
// and its tail applied to it. Errors are those of Machine. It keeps the state and a few
// segments in memory.
func Load(ctx context.Context, bucket storage.Bucket, a *document.Archive) (*fsm.Machine, error) {
	return loadWithin(ctx, bucket, a, 0)
}

// loadWithin is Load with the bound of a limit.
func loadWithin(ctx context.Context, bucket storage.Bucket, a *document.Archive, most int64) (*fsm.Machine, error) {
	if err := a.Check(); err != nil {
		return nil, &ObjectError{"", fmt.Errorf("%w: %w", ErrDamaged, err)}
	}
	m, err := readCheckpointWithin(ctx, bucket, pointOf(a), most)
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
	if lsn := m.Meta().LSN; lsn != a.LSN() {
		return nil, &ObjectError{"", fmt.Errorf("%w: the archive ends at %[3]s; expected %[2]s", ErrDamaged, a.LSN(), lsn)}
	}
	return m, nil
}
