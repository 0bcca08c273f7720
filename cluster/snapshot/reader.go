package snapshot

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"time"

	"osqueue/storage/blob"
)

// checkedReader returns the bytes of a snapshot, but the last of them only if the checksum
// of all bytes matches. A decoder that stops at its own end mark has also read verified
// bytes.
type checkedReader struct {
	io.Closer
	r    io.Reader
	sum  hash.Hash
	want [sha256.Size]byte
	left int64
	err  error
	bad  func(error) // called once if the snapshot is damaged; may be nil
}

func newCheckedReader(rc io.ReadCloser, r *record, bad func(error)) *checkedReader {
	return &checkedReader{Closer: rc, r: rc, sum: sha256.New(), want: r.sum(), left: r.Size, bad: bad}
}

// Read implements io.Reader.
func (c *checkedReader) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if int64(len(p)) > c.left {
		p = p[:c.left]
	}
	var n int
	if c.left > 0 {
		var err error
		n, err = c.r.Read(p)
		c.left -= int64(n)
		c.sum.Write(p[:n])
		if c.left > 0 {
			return n, c.short(err)
		}
	}
	if [sha256.Size]byte(c.sum.Sum(nil)) != c.want {
		return 0, c.fail(fmt.Errorf("%w: checksum mismatch", ErrDamaged))
	}
	c.err = io.EOF
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// short returns the error of a read after which bytes are still missing.
func (c *checkedReader) short(err error) error {
	if err == io.EOF { //nolint:errorlint // a reader returns it bare
		return c.fail(fmt.Errorf("%w: %d bytes are missing at its end", ErrDamaged, c.left))
	}
	if errors.Is(err, blob.ErrDamaged) {
		return c.fail(fmt.Errorf("%w: %w", ErrDamaged, err))
	}
	if err != nil {
		c.err = err
	}
	return err
}

func (c *checkedReader) fail(err error) error {
	c.err = err
	if c.bad != nil {
		c.bad(err)
	}
	return err
}

// guardedReader cancels a read that takes longer than limit, so that a bucket that does not
// answer cannot block raft. The time between reads does not count.
type guardedReader struct {
	io.ReadCloser
	timer  *time.Timer
	limit  time.Duration
	cancel context.CancelFunc
}

// guardReader returns a guardedReader that owns cancel, which must end the reads of rc.
func guardReader(rc io.ReadCloser, limit time.Duration, cancel context.CancelFunc) *guardedReader {
	g := &guardedReader{ReadCloser: rc, limit: limit, cancel: cancel}
	g.timer = time.AfterFunc(limit, cancel)
	g.timer.Stop()
	return g
}

// Read implements io.Reader.
func (g *guardedReader) Read(p []byte) (int, error) {
	g.timer.Reset(g.limit)
	defer g.timer.Stop()
	return g.ReadCloser.Read(p)
}

// Close implements io.Closer.
func (g *guardedReader) Close() error {
	defer g.cancel()
	return g.ReadCloser.Close()
}
