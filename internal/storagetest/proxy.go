package storagetest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"osqueue/internal/storagetest/fault"
)

// The proxy knows these kinds of package fault: LoseRequest, LoseAnswer, DeliverLate (by
// Deliver), Stall (until the client gives up) and Truncate (half of the answer's body arrives),
// and the kinds below.
const (
	AnswerApplied fault.Kind = "answer-applied" // forwarded; answered with Status and Body
	AnswerInstead fault.Kind = "answer-instead" // answered with Status and Body, nothing is forwarded
)

// Fault is a rule of the proxy.
type Fault struct {
	Kind fault.Kind
	// Method limits the fault to requests with this method, and Path to those
	// whose path contains it. Empty means any.
	Method, Path string
	// Times is how many requests are hit; 0 means all.
	Times int
	// Status, Header and Body are the answer of the modes that have one.
	Status int
	Header map[string]string
	Body   string
}

func (f *Fault) matches(r *http.Request) bool {
	return (f.Method == "" || f.Method == r.Method) && strings.Contains(r.URL.Path, f.Path)
}

// Proxy stands between a driver and a store that speaks HTTP. It keeps the Host
// header, which S3's signatures cover.
type Proxy struct {
	server  *httptest.Server
	reverse *httputil.ReverseProxy

	mu    sync.Mutex
	fault *Fault
	hits  int
	seen  map[string]int
	held  []*http.Request
}

// NewProxy starts a proxy before the store at target, and stops it with the
// test.
func NewProxy(t *testing.T, target string) *Proxy {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{seen: map[string]int{}}
	transport := &http.Transport{DisableCompression: true}
	p.reverse = &httputil.ReverseProxy{
		Transport: transport,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(u)
			r.Out.Host = r.In.Host
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	p.server = httptest.NewServer(p)
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
		transport.CloseIdleConnections()
	})
	return p
}

// URL is the address that the driver is given as its endpoint.
func (p *Proxy) URL() string { return p.server.URL }

// Inject makes f the proxy's only fault, and starts all counts at zero.
func (p *Proxy) Inject(f Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault, p.hits, p.seen = &f, 0, map[string]int{}
}

// Heal ends the fault.
func (p *Proxy) Heal() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = nil
}

// Hits returns how many requests the fault has hit.
func (p *Proxy) Hits() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.hits
}

// Seen returns how many requests with this method have arrived since Inject.
func (p *Proxy) Seen(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.seen[method]
}

// Deliver sends the held requests to the store, oldest first, and returns the
// statuses of its answers.
func (p *Proxy) Deliver() []int {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	statuses := make([]int, 0, len(held))
	for _, r := range held {
		answer := httptest.NewRecorder()
		p.reverse.ServeHTTP(answer, r)
		statuses = append(statuses, answer.Code)
	}
	return statuses
}

// pick counts the request and returns the fault that hits it, or nil.
func (p *Proxy) pick(r *http.Request) *Fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen[r.Method]++
	if f := p.fault; f != nil && f.matches(r) && (f.Times == 0 || p.hits < f.Times) {
		p.hits++
		return f
	}
	return nil
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f := p.pick(r)
	if f == nil {
		p.reverse.ServeHTTP(w, r)
		return
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	switch f.Kind {
	case fault.LoseAnswer:
		p.reverse.ServeHTTP(httptest.NewRecorder(), r)
		panic(http.ErrAbortHandler)
	case AnswerApplied:
		p.reverse.ServeHTTP(httptest.NewRecorder(), r)
		f.answer(w)
	case fault.LoseRequest:
		panic(http.ErrAbortHandler)
	case AnswerInstead:
		f.answer(w)
	case fault.DeliverLate:
		p.hold(r, body)
		panic(http.ErrAbortHandler)
	case fault.Stall:
		<-r.Context().Done()
		panic(http.ErrAbortHandler)
	case fault.Truncate:
		p.truncate(w, r)
	default:
		panic(fmt.Sprintf("storagetest: unknown fault %q", f.Kind))
	}
}

func (p *Proxy) hold(r *http.Request, body []byte) {
	late := r.Clone(context.Background()) // it outlives the connection it came on
	late.Body = io.NopCloser(bytes.NewReader(body))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = append(p.held, late)
}

func (f *Fault) answer(w http.ResponseWriter) {
	for name, value := range f.Header {
		w.Header().Set(name, value)
	}
	w.WriteHeader(f.Status)
	io.WriteString(w, f.Body)
}

// truncate announces the whole answer and breaks off in the middle.
func (p *Proxy) truncate(w http.ResponseWriter, r *http.Request) {
	answer := httptest.NewRecorder()
	p.reverse.ServeHTTP(answer, r)
	for name, values := range answer.Header() {
		w.Header()[name] = values
	}
	w.Header().Set("Content-Length", fmt.Sprint(answer.Body.Len()))
	w.WriteHeader(answer.Code)
	w.Write(answer.Body.Bytes()[:answer.Body.Len()/2])
	panic(http.ErrAbortHandler)
}
