package sandbox

import (
	"bytes"
	"io"
	"strings"
)

// head keeps the first limit bytes and drops the rest. It calls full once, at the first
// byte that it drops. Only one goroutine may write to it. The buffer is not embedded,
// because its ReadFrom would bypass the limit.
type head struct {
	buf   bytes.Buffer
	limit int
	full  func()
	over  bool
}

func (b *head) Write(p []byte) (int, error) {
	keep := min(len(p), b.limit-b.buf.Len())
	b.buf.Write(p[:keep])
	if keep < len(p) && !b.over {
		b.over = true
		b.full()
	}
	return len(p), nil
}

// tail keeps the last limit bytes. Its buffer grows up to twice the limit.
type tail struct {
	buf   []byte
	limit int
	cut   bool
	copy  io.Writer // gets all bytes; nil: none
}

func (b *tail) Write(p []byte) (int, error) {
	n := len(p)
	if b.copy != nil {
		_, _ = b.copy.Write(p) // it is for people who watch
	}
	if len(p) > b.limit {
		p, b.cut = p[len(p)-b.limit:], true
	}
	b.buf = append(b.buf, p...)
	if len(b.buf) > 2*b.limit {
		b.trim()
	}
	return n, nil
}

func (b *tail) trim() {
	if over := len(b.buf) - b.limit; over > 0 {
		b.buf = append(b.buf[:0], b.buf[over:]...)
		b.cut = true
	}
}

// text returns the tail as text, with a mark if the beginning is missing.
func (b *tail) text() string {
	b.trim()
	text := strings.TrimSpace(strings.ToValidUTF8(string(b.buf), "\uFFFD"))
	if b.cut {
		return "…" + text
	}
	return text
}
