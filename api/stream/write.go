package stream

import (
	"fmt"
	"runtime"
	"time"

	"osqueue/client/api/v1/frame"
	"osqueue/internal/limit"
	"osqueue/internal/sleep"
)

// output is a buffer of frames that wait for the writer.
type output struct {
	bytes []byte
	hold  limit.Hold
}

// keptOutput is the largest output buffer that is used again.
const keptOutput = 256 << 10

// push appends a frame to the output. If the connection has ended, it does nothing.
func (c *Conn) push(k frame.Kind, id uint32, m frame.Message) { c.append(k, id, m, nil) }

// append is push. It forgets the request that the frame answers, if any, under the same lock:
// a draining connection must see the request or its answer.
func (c *Conn) append(k frame.Kind, id uint32, m frame.Message, answered *task) {
	c.mu.Lock()
	c.forget(answered)
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	before := len(c.out.bytes)
	b, err := frame.Append(c.out.bytes, k, id, m)
	c.out.bytes = b
	c.out.hold.Force(len(b) - before)
	c.mu.Unlock()
	if err != nil {
		c.end(err)
	}
	if before == 0 {
		c.signal()
	}
}

// signal wakes the writer.
func (c *Conn) signal() { sleep.Wake(c.wake) }

// write writes the output until the connection ends. It sends a ping when it has written nothing for
// a ping interval.
func (c *Conn) write() {
	ping := time.NewTimer(c.limits.Ping)
	defer ping.Stop()
	spare := output{hold: c.budget.Hold()}
	for {
		select {
		case <-c.wake:
			runtime.Gosched() // other handlers of the same entry append their answers
		case <-ping.C:
			c.push(frame.KindPing, 0, nil)
		}
		full, last := c.take(spare)
		if full.bytes == nil {
			return
		}
		if err := c.flush(full.bytes); err != nil {
			full.hold.Release()
			c.end(err)
			return
		}
		ping.Reset(c.limits.Ping)
		if spare = emptied(full); last {
			c.end(errDrained)
			return
		}
	}
}

// take exchanges the output for an empty one. The bytes are nil if the connection has ended.
// last reports that a draining connection has no more to write.
func (c *Conn) take(spare output) (full output, last bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return output{}, false
	}
	if full = c.out; full.bytes == nil {
		full.bytes = []byte{}
	}
	c.out = spare
	c.room.Signal()
	return full, c.draining && len(c.pending) == 0
}

// flush writes b. A client that does not read in time ends the connection.
func (c *Conn) flush(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	_ = c.conn.SetWriteDeadline(time.Now().Add(c.limits.WriteTimeout))
	if _, err := c.conn.Write(b); err != nil {
		return fmt.Errorf("write %d bytes of answers: %w", len(b), err)
	}
	return nil
}

func emptied(o output) output {
	o.hold.Release()
	o.bytes = o.bytes[:0]
	if cap(o.bytes) > keptOutput {
		o.bytes = nil
	}
	return o
}
