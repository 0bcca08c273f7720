package store

import (
	"bytes"
	"context"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"testing"
	"time"

	"osqueue/storage"
	"osqueue/tests/cluster"
)

// Proxy stands between the nodes and a store that speaks HTTP. It keeps the Host
// header, which S3's signatures cover.
type Proxy struct {
	t       *testing.T
	words   dialect
	reverse *httputil.ReverseProxy
	idle    func() // closes connections to the store
	bucket  storage.Bucket
	gate    gate
	busy    busy
	closed  chan struct{}

	writing sync.Mutex // held over a write of the document and the reading after it
	record  record

	control
}

// storeTimeout bounds how long the store itself may take for one request.
const storeTimeout = 30 * time.Second

func startProxy(t *testing.T, words dialect, endpoint string, bucket storage.Bucket) *Proxy {
	t.Helper()
	u, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{DisableCompression: true, MaxIdleConnsPerHost: 16}
	p := &Proxy{t: t, words: words, bucket: bucket, idle: transport.CloseIdleConnections, closed: make(chan struct{})}
	p.reverse = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
		ErrorLog:     log.New(io.Discard, "", 0), // that a client is gone is no news here
	}
	p.gate = gate{handler: p, addr: cluster.FreshNet() + ".200:9000"}
	p.hits = make(map[Fault]int)
	if err := p.gate.open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.close)
	return p
}

func (p *Proxy) endpoint() string { return "http://" + p.gate.addr }

// close ends everything and waits for it.
func (p *Proxy) close() {
	close(p.closed)
	p.gate.close()
	p.busy.wait()
	p.idle()
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.busy.begin()
	defer p.busy.end()
	q := p.words.classify(r)
	d := p.decide(q)
	if !d.special() && !Document(q) {
		p.reverse.ServeHTTP(w, r)
		return
	}
	// The body is read first: a stopped client must not hold up the others.
	body, err := io.ReadAll(r.Body)
	if err != nil {
		cut()
	}
	p.mishap(w, letter{request: q, client: r.Context(), r: r.Clone(context.Background()), body: body}, d)
}

// letter is a request that has come in whole.
type letter struct {
	request
	client context.Context // ends when the client has given up
	r      *http.Request   // does not
	body   []byte
}

// mishap applies the decided fault to a request.
func (p *Proxy) mishap(w http.ResponseWriter, l letter, d decision) {
	switch {
	case d.away != nil:
		p.until(l, d.away)
		cut()
	case d.down:
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	case d.denied:
		p.refuse(w, p.words.denied)
		return
	case d.held != nil:
		p.hold(w, l, d.held)
		return
	}
	if !p.sleep(l, d.slow) {
		cut()
	}
	if d.blow != nil {
		p.strike(w, l, *d.blow)
		return
	}
	pass(p.apply(l), w)
}

// strike makes a request meet a fault.
func (p *Proxy) strike(w http.ResponseWriter, l letter, b blow) {
	switch b.fault {
	case LoseAnswer:
		p.apply(l)
		cut()
	case GarbleApplied:
		p.apply(l)
		rubbish(w)
	case ErrorApplied:
		p.apply(l)
		errorPage(w)
	case DeliverLate:
		p.later(l, b.wait)
		cut()
	case LoseRequest:
		cut()
	case Throttle:
		p.refuse(w, p.words.throttle[b.turn%len(p.words.throttle)])
	case Reject:
		p.refuse(w, p.words.conflict)
	case Answered:
		for name, value := range b.answer.Header {
			w.Header().Set(name, value)
		}
		w.WriteHeader(b.answer.Status)
		_, _ = io.WriteString(w, b.answer.Body) // the client may be gone
	case Garble:
		rubbish(w)
	case Error:
		errorPage(w)
	case Truncate:
		truncate(w, p.apply(l))
	case Stall:
		p.until(l, nil)
		cut()
	case Slow:
		if !p.sleep(l, b.wait) {
			cut()
		}
		pass(p.apply(l), w)
	}
}

// hold keeps a write until it is released, whether or not its client still waits.
func (p *Proxy) hold(w http.ResponseWriter, l letter, h *Held) {
	close(h.arrived)
	select {
	case <-h.release:
		answer := p.apply(l)
		h.refused <- conditionFailed(answer.Code)
		pass(answer, w)
	case <-p.closed:
		cut()
	}
}

// later applies a write some time after its connection was closed.
func (p *Proxy) later(l letter, wait time.Duration) {
	p.busy.begin()
	go func() {
		defer p.busy.end()
		t := time.NewTimer(wait)
		defer t.Stop()
		select {
		case <-t.C:
			p.apply(l)
		case <-p.closed:
		}
	}()
}

// apply sends a request to the store, in the proxy's own name: its client may go
// meanwhile. It returns the answer. Writes of the document go one at a time.
func (p *Proxy) apply(l letter) *httptest.ResponseRecorder {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	r := l.r.Clone(ctx)
	r.Body = io.NopCloser(bytes.NewReader(l.body))
	answer := httptest.NewRecorder()
	if !Document(l.request) {
		p.reverse.ServeHTTP(answer, r)
		return answer
	}
	p.writing.Lock()
	defer p.writing.Unlock()
	p.reverse.ServeHTTP(answer, r)
	p.note(ctx, answer.Code)
	return answer
}

// note reads the document directly, not through the proxy, after any answer: only the content
// of the store counts.
func (p *Proxy) note(ctx context.Context, status int) {
	if conditionFailed(status) {
		p.countRefused()
		return
	}
	if o, err := p.bucket.Get(ctx, docKey); err == nil {
		p.record.add(o.Data)
	}
}

func conditionFailed(status int) bool {
	return status == http.StatusPreconditionFailed || status == http.StatusConflict
}

// sleep waits, and reports whether the request can still continue.
func (p *Proxy) sleep(l letter, d time.Duration) bool {
	if d <= 0 {
		return true
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-l.client.Done():
	case <-p.closed:
	}
	return false
}

// until waits for a change, or for the client to give up.
func (p *Proxy) until(l letter, change <-chan struct{}) {
	select {
	case <-change:
	case <-l.client.Done():
	case <-p.closed:
	}
}

// cut breaks the connection.
func cut() { panic(http.ErrAbortHandler) }

// refuse answers that nothing was done.
func (p *Proxy) refuse(w http.ResponseWriter, a refusal) {
	contentType, body := p.words.refusal(a.status, a.code)
	answer(w, a.status, contentType, body)
}

const page = "<!DOCTYPE html><html><body><h1>Something went wrong</h1></body></html>"

func rubbish(w http.ResponseWriter) { answer(w, http.StatusOK, "text/html", page) }

func errorPage(w http.ResponseWriter) { answer(w, http.StatusInternalServerError, "text/html", page) }

func answer(w http.ResponseWriter, status int, contentType, body string) {
	w.Header().Set("Content-Type", contentType)
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) // the client may be gone
}

// pass sends an answer that was held back.
func pass(a *httptest.ResponseRecorder, w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header())
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes()) // the client may be gone
}

// truncate announces the whole answer and breaks off in the middle.
func truncate(w http.ResponseWriter, a *httptest.ResponseRecorder) {
	maps.Copy(w.Header(), a.Header())
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes()[:a.Body.Len()/2])
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
	cut()
}
