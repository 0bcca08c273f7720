package blob

import (
	"context"
	"crypto/sha256"

	"golang.org/x/sync/errgroup"

	"osqueue/storage"
)

// cutter takes the compressed stream, cuts it into parts, and has them uploaded.
type cutter struct {
	ctx    context.Context // ends when an upload has failed; its cause says why
	bucket storage.Bucket
	prefix string
	size   int // of a part
	group  *errgroup.Group

	part  []byte // being filled
	parts []Part // handed over
}

func newCutter(ctx context.Context, bucket storage.Bucket, prefix string, o *Options) *cutter {
	c := &cutter{bucket: bucket, prefix: prefix, size: o.PartBytes}
	c.group, c.ctx = errgroup.WithContext(ctx)
	c.group.SetLimit(o.Parallel)
	return c
}

// Write waits while too many parts are under way. It fails when one of them has.
func (c *cutter) Write(p []byte) (int, error) {
	for rest := p; len(rest) > 0; {
		n := min(len(rest), c.size-len(c.part))
		c.part = append(c.part, rest[:n]...)
		rest = rest[n:]
		if len(c.part) == c.size {
			if err := c.upload(); err != nil {
				return 0, err
			}
		}
	}
	return len(p), nil
}

// upload hands the part over. Its memory is not used again: the store's client
// may still read from it when an attempt is given up.
func (c *cutter) upload() error {
	if err := context.Cause(c.ctx); err != nil {
		return err
	}
	data, key := c.part, partKey(c.prefix, len(c.parts))
	c.parts = append(c.parts, Part{Bytes: int64(len(data)), Sum: sha256.Sum256(data)})
	c.part = make([]byte, 0, c.size)
	c.group.Go(func() error { return put(c.ctx, c.bucket, key, data) })
	return nil
}

// finish uploads the last part and waits until all are there.
func (c *cutter) finish() error {
	var err error
	if len(c.part) > 0 {
		err = c.upload()
	}
	if failed := c.group.Wait(); failed != nil {
		return failed
	}
	return err
}
