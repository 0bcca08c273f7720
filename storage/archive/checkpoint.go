package archive

import (
	"context"
	"errors"
	"fmt"
	"io"

	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/blob"
	"osqueue/storage/document"
)

// checkpointMeta is the part of a checkpoint's manifest that other blobs do not have.
type checkpointMeta struct {
	Lineage string       `json:"lineage"`
	Prev    fsm.LSN      `json:"prev"`
	LSN     fsm.LSN      `json:"lsn"`
	At      int64        `json:"at"`
	Jobs    int          `json:"jobs"`  // for people
	State   document.Sum `json:"state"` // fsm.StateSum
}

func metaOf(n name) checkpointMeta {
	return checkpointMeta{Lineage: n.lineage, Prev: n.after, LSN: n.last, At: n.at}
}

// WriteCheckpoint writes state v as a checkpoint, which is complete and certain to be in the bucket
// when WriteCheckpoint returns nil. prev is the origin of the chain (see document.Checkpoint): an LSN at
// which a segment or a checkpoint ends, or zero. WriteCheckpoint keeps a few parts in memory, and
// tries until ctx ends. After a failure it removes the parts that it wrote, if it can;
// otherwise they are garbage.
func WriteCheckpoint(ctx context.Context, bucket storage.Bucket, lineage string, prev fsm.LSN, v *fsm.View) (document.Checkpoint, error) {
	return writeCheckpoint(ctx, bucket, lineage, prev, v, v.EncodeSum)
}

// WritePacedCheckpoint is WriteCheckpoint on a node that serves clients meanwhile. It takes twice
// the time and half of a processor.
func WritePacedCheckpoint(ctx context.Context, bucket storage.Bucket, lineage string, prev fsm.LSN, v *fsm.View) (document.Checkpoint, error) {
	return writeCheckpoint(ctx, bucket, lineage, prev, v, func(w io.Writer) (fsm.StateSum, error) {
		return v.EncodeSum(sleep.NewWriter(w))
	})
}

func writeCheckpoint(
	ctx context.Context, bucket storage.Bucket, lineage string, prev fsm.LSN, v *fsm.View,
	encode func(io.Writer) (fsm.StateSum, error),
) (document.Checkpoint, error) {
	m := v.Meta()
	if prev.Compare(m.LSN()) > 0 {
		return document.Checkpoint{}, fmt.Errorf("write the checkpoint of %s: it must be after %s", m.LSN(), prev)
	}
	n := newName(manifestKind, lineage, prev, m.LSN(), m.NowMs)
	meta := metaOf(n)
	for _, jobs := range v.Counts() {
		meta.Jobs += jobs
	}
	w := blob.Create(ctx, bucket, n.directory(), partBytes(v, meta.Jobs))
	defer w.Abort()
	sum, err := encode(w)
	if err != nil {
		return document.Checkpoint{}, fmt.Errorf("write the checkpoint of %s: %w", m.LSN(), err)
	}
	meta.State = sum.Sum
	w.SetMeta(document.Marshal(meta))
	done, err := w.Close()
	if err != nil {
		return document.Checkpoint{}, fmt.Errorf("write the checkpoint of %s: %w", m.LSN(), err)
	}
	return document.Checkpoint{
		Key: done.Key, LSN: m.LSN(), Prev: prev, At: m.NowMs, Raw: done.Raw, Stored: done.Stored, Sum: done.Sum,
	}, nil
}

// partBytes returns the size of a part: 0 (the default), or less for a small state, because the
// buffer of a part is allocated in full.
func partBytes(v *fsm.View, jobs int) int {
	const small, perJob = 1 << 20, 1 << 10
	if v.Bytes()+int64(jobs)*perJob < small {
		return small
	}
	return 0
}

// readCheckpoint returns the state of a checkpoint. It checks the state against the manifest, and the
// manifest against its key and the reference to it. A state that takes more than most bytes of memory is
// ErrTooLarge; 0 is no bound.
func readCheckpoint(ctx context.Context, bucket storage.Bucket, p point, most int64) (*fsm.Machine, error) {
	if p.isOrigin() {
		return fsm.New(), nil
	}
	m, err := decodeCheckpoint(ctx, bucket, p, most)
	if err != nil {
		return nil, &ObjectError{p.key, err}
	}
	return m, nil
}

func decodeCheckpoint(ctx context.Context, bucket storage.Bucket, p point, most int64) (*fsm.Machine, error) {
	var want *blob.Sum
	if p.named != nil {
		want = &p.named.Sum
	}
	r, err := blob.Open(ctx, bucket, p.key, want)
	if err != nil {
		return nil, asDamage(err)
	}
	defer func() { _ = r.Close() }() // ends what is under way, and cannot fail
	meta, err := p.check(r.Manifest())
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err := checkSize(r.Manifest().Raw, meta.Jobs, most); err != nil {
		return nil, err
	}
	in := &noting{r: r}
	m, err := fsm.Decode(in)
	switch {
	case err != nil && in.err != nil:
		return nil, asDamage(in.err)
	case err != nil:
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if meta := m.Meta(); meta.LSN() != p.lsn || meta.NowMs != p.at {
		return nil, fmt.Errorf("%w: the state is of %s at %d ms; expected %s at %d ms", ErrDamaged, meta.LSN(), meta.NowMs, p.lsn, p.at)
	}
	if err := compareSum(m, meta.State); err != nil {
		return nil, err
	}
	return m, nil
}

// compareSum compares the state that was read with the checksum in the manifest. Its bytes are
// intact, so that a difference means that this version reads them in another way than the one
// that wrote them.
func compareSum(m *fsm.Machine, written document.Sum) error {
	if written == (document.Sum{}) {
		return fmt.Errorf("%w: the manifest has no checksum of the state", ErrDamaged)
	}
	if sum := m.View().Sum(); sum.Sum != written {
		return fmt.Errorf("%w: the state of %s has the checksum %x, but %x was recorded when it was written: read it "+
			"with the release that wrote it",
			fsm.ErrDiverged, sum.LSN, sum.Sum[:8], written[:8])
	}
	return nil
}

// asDamage wraps ErrDamaged in the errors of a blob that report damage.
func asDamage(err error) error {
	if errors.Is(err, blob.ErrDamaged) || errors.Is(err, storage.ErrNotFound) {
		return fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return err
}

// check compares a manifest with the known facts of its checkpoint.
func (p *point) check(m *blob.Manifest) (meta checkpointMeta, err error) {
	n, ok := parseName(p.key)
	if !ok || n.kind != manifestKind || n.after != p.prev || n.last != p.lsn || n.at != p.at {
		return meta, errors.New("the key is not that of this checkpoint")
	}
	if err := document.Unmarshal(m.Meta, &meta); err != nil {
		return meta, fmt.Errorf("the manifest has no metadata of a checkpoint: %w", err)
	}
	want := metaOf(n)
	want.Jobs, want.State = meta.Jobs, meta.State
	if meta != want {
		return meta, fmt.Errorf("the manifest describes %+v; expected %+v", meta, want)
	}
	if b := p.named; b != nil && (b.Raw != m.Raw || b.Stored != m.Stored) {
		return meta, fmt.Errorf("the checkpoint has %d bytes in %d parts; expected %d in %d", m.Raw, m.Stored, b.Raw, b.Stored)
	}
	return meta, nil
}

// noting remembers the error of its reader, unless it is io.EOF.
type noting struct {
	r   io.Reader
	err error
}

func (n *noting) Read(p []byte) (int, error) {
	k, err := n.r.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		n.err = err
	}
	return k, err
}
