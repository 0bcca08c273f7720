package snapshot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/klauspost/compress/zstd"

	"osqueue/storage"
	"osqueue/storage/blob"
)

// stallLimit is the time without progress after which an attempt to upload ends. The next
// attempt uploads the newest snapshot at its start.
const stallLimit = 5 * time.Minute

// listUploads returns the uploads of a cluster, newest first.
func listUploads(ctx context.Context, b storage.Bucket, cluster string) ([]found, error) {
	keys, err := listKeys(ctx, b, cluster)
	if err != nil {
		return nil, err
	}
	return survey(keys, cluster), nil
}

func listKeys(ctx context.Context, b storage.Bucket, cluster string) ([]string, error) {
	var keys []string
	err := b.List(ctx, root+cluster+"/", func(i storage.Info) bool {
		keys = append(keys, i.Key)
		return true
	})
	if err != nil {
		return nil, fmt.Errorf("list the snapshots in the bucket: %w", err)
	}
	return keys, nil
}

// uploader writes snapshots to a bucket.
type uploader struct {
	bucket    storage.Bucket
	partBytes int         // 0: the default of package blob
	note      func(error) // called for each failure that is tried again
}

// write copies a snapshot to the bucket. If it fails, the objects that it has written are
// an incomplete upload, or turn out to be a whole one.
func (up uploader) write(ctx context.Context, u upload, r *record, from io.Reader) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stall := time.AfterFunc(stallLimit, func() { cancel(fmt.Errorf("the upload made no progress for %v", stallLimit)) })
	defer stall.Stop()
	w := blob.Create(ctx, noting{up.bucket, up.note}, u.prefix(), blob.Options{
		PartBytes: up.partBytes,
		Level:     zstd.SpeedFastest, // the node needs its cores for other work; two snapshots are kept
		Meta:      r.encode(),
	})
	defer w.Abort()
	if _, err := io.Copy(w, &movingReader{from, stall}); err != nil {
		return err
	}
	_, err := w.Close()
	return err
}

// movingReader resets a timer with each read.
type movingReader struct {
	io.Reader
	timer *time.Timer
}

// Read implements io.Reader.
func (m *movingReader) Read(p []byte) (int, error) {
	m.timer.Reset(stallLimit)
	return m.Reader.Read(p)
}

// noting reports failed writes, which package blob repeats without notice.
type noting struct {
	storage.Bucket
	note func(error)
}

// PutIfAbsent implements storage.Bucket.
func (n noting) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	w := n.Bucket.PutIfAbsent(ctx, key, data)
	if w.Outcome == storage.Unknown {
		n.note(fmt.Errorf("write %q: %w", key, w.Err))
	}
	return w
}

// openUpload opens an upload, and returns its record. The reader returns the last bytes
// only if the checksum of all bytes matches. ctx must stay active as long as the reader is
// in use.
func openUpload(ctx context.Context, b storage.Bucket, u upload) (*record, io.ReadCloser, error) {
	rc, err := blob.Open(ctx, b, u.manifest(), nil)
	if errors.Is(err, blob.ErrDamaged) {
		err = fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	if err != nil {
		return nil, nil, err
	}
	r, err := decodeRecord(rc.Manifest().Meta)
	if err == nil {
		err = u.check(r, rc.Manifest())
	}
	if err != nil {
		return nil, nil, errors.Join(err, rc.Close())
	}
	return r, newCheckedReader(rc, r, nil), nil
}

// check compares the record of an upload with its name and its manifest.
func (u upload) check(r *record, m *blob.Manifest) error {
	if r.point() != u.point || r.Cluster != u.cluster || r.Node != u.node {
		return fmt.Errorf("%w: the manifest describes another snapshot, %s of node %q in cluster %q", ErrDamaged, r.point(), r.Node, r.Cluster)
	}
	if r.Size != m.Raw || r.sum() != m.RawSum {
		return fmt.Errorf("%w: its description names %d bytes with the checksum %x, and the manifest %d with %x", ErrDamaged, r.Size, r.sum(), m.Raw, m.RawSum)
	}
	return nil
}
