package stream

import (
	"bufio"
	"fmt"
	"io"
	"time"

	"osqueue/client/api/v1/frame"
)

// controlMax bounds the body of a frame that is not an answer.
const controlMax = 4 << 10

// read reads frames until the connection ends, and returns the reason.
func (c *Conn) read(in *bufio.Reader) error {
	var buf [frame.HeadBytes]byte
	for {
		head, err := frame.ReadHead(in, &buf)
		if err != nil {
			return fmt.Errorf("read: %w", err)
		}
		c.heard.Store(time.Now().UnixNano())
		if head.Kind == frame.KindAnswer {
			err = c.answer(in, head)
		} else {
			err = c.control(in, head)
		}
		if err != nil {
			return err
		}
	}
}

// answer reads an answer and passes it to its caller. It skips an answer without a
// caller, and one that is too long.
func (c *Conn) answer(in *bufio.Reader, head frame.Head) error {
	c.mu.Lock()
	p := c.pending[head.ID]
	c.mu.Unlock()
	var r result
	r.sent = true
	switch {
	case p == nil || int64(head.Length) > p.limit+controlMax:
		if _, err := io.CopyN(io.Discard, in, int64(head.Length)); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		r.err = ErrTooLarge
	default:
		body := make([]byte, head.Length)
		if _, err := io.ReadFull(in, body); err != nil {
			return fmt.Errorf("read: %w", err)
		}
		if err := r.answer.Parse(body); err != nil {
			return err
		}
	}
	c.mu.Lock()
	deliver := p != nil && c.pending[head.ID] == p
	if deliver {
		delete(c.pending, head.ID)
	}
	last := c.retired && len(c.pending) == 0
	c.mu.Unlock()
	if deliver {
		p.done <- r
	}
	if last {
		return ErrClosed
	}
	return nil
}

// control handles a frame about the connection. Unknown ones are skipped.
func (c *Conn) control(in *bufio.Reader, head frame.Head) error {
	if head.Length > controlMax {
		return fmt.Errorf("the server sent a frame of the kind %d with %d bytes; at most %d are possible", head.Kind, head.Length, controlMax)
	}
	body := make([]byte, head.Length)
	if _, err := io.ReadFull(in, body); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	switch head.Kind {
	case frame.KindPing:
		c.mu.Lock()
		defer c.mu.Unlock()
		out, err := frame.Append(c.out, frame.KindPong, head.ID, nil)
		if err != nil {
			return err
		}
		c.out = out
		c.signal()
	case frame.KindMoved:
		var m frame.Moved
		if err := m.Parse(body); err != nil {
			return err
		}
		if m.Closing {
			c.Retire()
		}
		c.moved(m)
	default:
	}
	return nil
}
