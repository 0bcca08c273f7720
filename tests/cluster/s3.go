package cluster

import (
	"bytes"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"time"

	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
)

const (
	s3Bucket = "osqueue"
	docKey   = "queue.json"
)

// S3 is an S3 server in the test's process that nodes use as their bucket. It
// keeps every accepted version of queue.json and can misbehave.
type S3 struct {
	url     string
	server  *http.Server
	backend *s3mem.Backend
	inner   http.Handler

	mu       sync.Mutex // serialises writes, so that the record has their order
	versions [][]byte
	refused  int // conditional writes that met another version
	lose     int // answers still to be lost
	lost     int
	down     bool
	hold     *Held // the next write of the document, if not nil
}

// Held is a write of the document that is late: its request has come in whole
// and waits until Release.
type Held struct {
	arrived, release chan struct{}
	refused          chan bool
}

// Arrived is closed when the write has come in.
func (h *Held) Arrived() <-chan struct{} { return h.arrived }

// Release lets the write go on, once, and reports whether its condition
// refused it.
func (h *Held) Release() (refused bool) {
	close(h.release)
	return <-h.refused
}

// StartS3 starts a server that ends with the test.
func StartS3(tb TB) *S3 {
	tb.Helper()
	backend := s3mem.New()
	if err := backend.CreateBucket(s3Bucket); err != nil {
		tb.Fatal(err)
	}
	s := &S3{backend: backend, inner: gofakes3.New(backend).Server()}
	s.server = &http.Server{Handler: s, ReadHeaderTimeout: 5 * time.Second}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s.url = "s3://" + s3Bucket + "?region=us-east-1&endpoint=http://" + l.Addr().String()
	go func() { _ = s.server.Serve(l) }()
	tb.Cleanup(func() { _ = s.server.Close() })
	return s
}

// URL is what --bucket takes.
func (s *S3) URL() string { return s.url }

// Env are the credentials, which the server does not check.
func (s *S3) Env() []string {
	return []string{"AWS_ACCESS_KEY_ID=test", "AWS_SECRET_ACCESS_KEY=test"}
}

// LoseAnswers applies the next n writes of the document and cuts the
// connection instead of answering.
func (s *S3) LoseAnswers(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lose = n
}

// HoldNext makes the next write of the document a late one.
func (s *S3) HoldNext() *Held {
	h := &Held{arrived: make(chan struct{}), release: make(chan struct{}), refused: make(chan bool, 1)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hold = h
	return h
}

// Lost is how many answers have been lost.
func (s *S3) Lost() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lost
}

// SetDown makes the server answer 503 to everything, or not any more.
func (s *S3) SetDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Refused is how many writes of the document were refused by their condition.
func (s *S3) Refused() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.refused
}

// Versions are all accepted versions of the document, in order.
func (s *S3) Versions() [][]byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([][]byte(nil), s.versions...)
}

// ServeHTTP implements http.Handler.
func (s *S3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	down := s.down
	s.mu.Unlock()
	if down {
		http.Error(w, "down", http.StatusServiceUnavailable)
		return
	}
	if r.Method != http.MethodPut || !strings.HasSuffix(r.URL.Path, "/"+docKey) {
		s.inner.ServeHTTP(w, r)
		return
	}
	s.serveWrite(w, r)
}

// serveWrite handles a write of the document. The body is read first: a
// stopped client must not hold up the others.
func (s *S3) serveWrite(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "cut", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	held := s.takeHeld()
	if held == nil {
		s.store(w, r)
		return
	}
	close(held.arrived)
	select {
	case <-held.release:
		held.refused <- conditionFailed(s.store(w, r))
	case <-r.Context().Done(): // the client is dead
	}
}

// store applies a write, one at a time, and returns its status.
func (s *S3) store(w http.ResponseWriter, r *http.Request) (status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer := httptest.NewRecorder()
	s.inner.ServeHTTP(answer, r)
	if conditionFailed(answer.Code) {
		s.refused++
	}
	if answer.Code == http.StatusOK {
		s.recordLocked()
		if s.lose > 0 {
			s.lose--
			s.lost++
			panic(http.ErrAbortHandler)
		}
	}
	pass(answer, w)
	return answer.Code
}

func conditionFailed(status int) bool {
	return status == http.StatusPreconditionFailed || status == http.StatusConflict
}

func (s *S3) takeHeld() *Held {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.hold
	s.hold = nil
	return h
}

func (s *S3) recordLocked() {
	obj, err := s.backend.GetObject(s3Bucket, docKey, nil)
	if err != nil {
		return
	}
	defer obj.Contents.Close()
	data, err := io.ReadAll(obj.Contents)
	if err == nil {
		s.versions = append(s.versions, data)
	}
}

// pass sends an answer that was held back.
func pass(a *httptest.ResponseRecorder, w http.ResponseWriter) {
	maps.Copy(w.Header(), a.Header())
	w.WriteHeader(a.Code)
	_, _ = w.Write(a.Body.Bytes()) // the client may be gone
}
