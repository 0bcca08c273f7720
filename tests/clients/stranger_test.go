package clients

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"testing"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/cluster"
)

// stranger is a proxy before a node, which answers some requests itself, as firewalls and identity proxies do.
type stranger struct {
	http.Handler
	mu     sync.Mutex
	status map[string]int // by the end of the path: of the next answer of its own
	hits   int
}

func newStranger(t *testing.T, c *cluster.Cluster) (*stranger, string) {
	t.Helper()
	node, err := url.Parse("http://" + strings.TrimPrefix(c.Nodes[0].HTTP, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	s := &stranger{Handler: &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(node) }}}
	server := httptest.NewServer(s)
	t.Cleanup(server.Close)
	return s, server.URL
}

func (s *stranger) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	end := r.URL.Path[strings.LastIndexByte(r.URL.Path, '/')+1:]
	s.mu.Lock()
	status := s.status[end]
	if status != 0 {
		delete(s.status, end)
		s.hits++
	}
	s.mu.Unlock()
	if status == 0 {
		s.Handler.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "text/html")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, "<html>not here</html>")
}

// An answer that does not come from a node ends no worker, and costs no job its result.
func TestAnswersOfStrangers(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 1)
		s, address := newStranger(t, c)
		l.workerOf(t, c, "w", "CONCURRENCY=1", "OSQUEUE_SERVERS="+address)
		one := int32(1)
		for i, status := range []int{400, 401, 403, 404, 413, 429, 451, 501, 502} {
			s.mu.Lock()
			s.status = map[string]int{"claim": status, "complete": status}
			s.mu.Unlock()
			id := enqueue(t, c, client.NewJob{Type: "square", Payload: []byte("7"), MaxAttempts: &one})
			if job := ending(t, c, id); job.Status != v1.StatusCompleted {
				t.Errorf("%d: the job is %s: %s", status, job.Status, job.LastError)
			}
			eventually(t, "the stranger to answer a claim and the completion", func() error { // the claim may be the next one
				s.mu.Lock()
				defer s.mu.Unlock()
				if s.hits != 2*(i+1) {
					return fmt.Errorf("it has answered %d requests, want %d", s.hits, 2*(i+1))
				}
				return nil
			})
		}
	})
}
