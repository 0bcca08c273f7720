package cluster

import (
	"fmt"
	"testing"
	"time"

	"osqueue/storage/archive"
)

// The active leader removes the objects that are past the window, and the rest can still
// be restored.
func TestCollection(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, func(c *Config) {
		c.Flush.ViewMax, c.Flush.TailMin, c.Flush.TailMax, c.Flush.CheckpointMin = 2, 1, 1, 0
		c.Flush.CompactAt, c.Flush.RefsMax = 2, 3
		c.Flush.Interval = time.Millisecond
		c.Flush.Window, c.CollectInterval = time.Millisecond, 20*time.Millisecond
	})...)
	l.eventually("the first checkpoint", func() bool { return l.document().Archive.Checkpoint.Key != "" })
	first := l.document().Archive.Checkpoint.LSN
	l.eventually("the first checkpoint to be collected", func() bool {
		lsn := l.enqueue(n, fmt.Sprint("job ", time.Now().UnixNano()))
		if err := n.WaitFlushed(t.Context(), lsn); err != nil {
			t.Fatal(err)
		}
		h, err := archive.Open(t.Context(), l.bucket, DocumentKey)
		return err == nil && len(h.Spans()) > 0 && h.Spans()[0].From.Compare(first) > 0
	})
	n.stop()
	report, err := archive.Verify(t.Context(), l.bucket, DocumentKey)
	if err != nil || !report.OK() {
		t.Errorf("%+v, %v", report, err)
	}
}
