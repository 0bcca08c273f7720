package api

import (
	"net/http"
	"sync/atomic"
	"time"
)

// HTTP/2 lets a client send frames that belong to no request, such as SETTINGS and PING. net/http
// answers each, so a flood of them costs a CPU. The pacer of a connection lets it read only so many
// bytes as its requests have, and an allowance in addition: beyond it reads are delayed. HTTP/1 has no
// such frames, and its connections are not paced.

const (
	paceRate  = 128 << 10 // bytes per second of the allowance; a PING has 17
	paceBurst = 1 << 20   // the largest allowance, in bytes
	paceDelay = 100 * time.Millisecond
	// paceHead is the part of a head that is not in its headers, with the frames by which a
	// client acknowledges the answer.
	paceHead = 256
	// paceField is the part of a header that is not in its name and value.
	paceField = 8
	// A client may send a WINDOW_UPDATE of 26 bytes for each 4 KiB that it reads.
	paceWrite, paceShare = 1 << 10, 64
)

// pacer paces one connection. One goroutine reads; others may call the other methods.
type pacer struct {
	free     atomic.Bool  // HTTP/1: not paced
	left     atomic.Int64 // bytes that may be read without a delay
	refilled time.Time    // by the reading goroutine
}

func (p *pacer) start() {
	p.left.Store(paceBurst)
	p.refilled = time.Now()
}

// read counts n bytes that were read, and delays its caller if they are too many.
func (p *pacer) read(n int) {
	if p.free.Load() || n <= 0 || p.left.Add(-int64(n)) > 0 {
		return
	}
	now := time.Now()
	earned := now.Sub(p.refilled).Seconds() * paceRate
	p.refilled = now
	left := p.left.Add(int64(min(earned, paceBurst)))
	if left < 0 && !p.free.Load() {
		time.Sleep(min(time.Duration(float64(-left)/paceRate*float64(time.Second)), paceDelay))
	}
}

// earn lets the connection read n more bytes.
func (p *pacer) earn(n int) {
	if n > 0 && p.left.Load() < paceBurst {
		p.left.Add(int64(n))
	}
}

// wrote counts n bytes that were written.
func (p *pacer) wrote(n int) {
	if n >= paceWrite && !p.free.Load() {
		p.earn(n / paceShare)
	}
}

// request counts the head of a request, and lets its body count.
func (p *pacer) request(r *http.Request) {
	if p.free.Load() {
		return
	}
	if r.ProtoMajor == 1 {
		p.free.Store(true)
		return
	}
	head := paceHead + len(r.RequestURI)
	for name, values := range r.Header {
		for _, value := range values {
			head += paceField + len(name) + len(value)
		}
	}
	p.earn(head)
	if r.ContentLength != 0 {
		r.Body = &countedBody{r.Body, p}
	}
}
