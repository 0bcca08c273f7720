package osqueue

import (
	"compress/gzip"
	"errors"
	"io"

	"connectrpc.com/connect"
)

// withBoundedGzip returns an option for messages that are compressed with gzip. connect-go
// unpacks the rest of a message that is too large only to report its size, and a message of some
// MiB can unpack to gigabytes. The decompressor of this option fails there.
func withBoundedGzip(messageBytes int64) connect.HandlerOption {
	return connect.WithCompression("gzip",
		func() connect.Decompressor { return &boundedGzip{limit: messageBytes + 1} },
		func() connect.Compressor { return gzip.NewWriter(nil) })
}

var errUnpacked = errors.New("the rest of the message is not unpacked")

// boundedGzip unpacks one message, and fails after limit bytes.
type boundedGzip struct {
	gzip.Reader
	limit int64
	left  int64
}

// Read implements io.Reader.
func (b *boundedGzip) Read(into []byte) (int, error) {
	if b.left <= 0 {
		return 0, errUnpacked
	}
	n, err := b.Reader.Read(into[:min(int64(len(into)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Reset implements connect.Decompressor.
func (b *boundedGzip) Reset(from io.Reader) error {
	b.left = b.limit
	return b.Reader.Reset(from)
}
