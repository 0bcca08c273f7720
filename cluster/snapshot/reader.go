package snapshot

import (
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
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
