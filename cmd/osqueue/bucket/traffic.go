package bucket

import (
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"osqueue/cmd/osqueue/view"
)

// traffic counts requests and bytes of buckets. It is safe for concurrent use.
type traffic struct {
	requests, read, written atomic.Int64
}

// progressInterval is the interval at which a long command prints its progress.
const progressInterval = 5 * time.Second

// tell writes the figures to w at the given interval, until stop is called.
func (t *traffic) tell(w io.Writer, every time.Duration) (stop func()) {
	var running sync.WaitGroup
	end := make(chan struct{})
	running.Go(func() {
		tick := time.NewTicker(every)
		defer tick.Stop()
		begin := time.Now()
		for {
			select {
			case <-end:
				return
			case <-tick.C:
				_ = view.Write(w, t.line(time.Since(begin))) // an error is ignored: the figures only inform
			}
		}
	})
	return func() {
		close(end)
		running.Wait()
	}
}

func (t *traffic) line(d time.Duration) string {
	text := fmt.Sprintf("%s: %d requests, %s read", view.Short(d.Round(time.Second)), t.requests.Load(), view.BytesText(t.read.Load()))
	if n := t.written.Load(); n > 0 {
		text += ", " + view.BytesText(n) + " written"
	}
	return text + "\n"
}
