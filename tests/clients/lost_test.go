package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// forgetful is a proxy in front of a node that loses the first answer to each write: the node
// applies the write, and the client's connection breaks. A write is identified by its path, its
// body and its key, so a repetition that differs from the original never gets an answer.
type forgetful struct {
	node *httputil.ReverseProxy
	t    *testing.T

	mu   sync.Mutex
	seen map[string]bool
	lost int
}

func (f *forgetful) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // the client has gone
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	if r.Method == http.MethodGet || f.known(r.URL.Path+"\n"+r.Header.Get("Idempotency-Key")+"\n"+string(body)) {
		f.node.ServeHTTP(w, r)
		return
	}
	f.node.ServeHTTP(httptest.NewRecorder(), r)
	conn, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		f.t.Error(err)
		return
	}
	conn.Close()
}

// known reports whether the write has come before.
func (f *forgetful) known(write string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.seen[write] {
		return true
	}
	f.seen[write] = true
	f.lost++
	return false
}

// The answer to each write is lost once. All is as it was without that.
func TestLostAnswers(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := cluster.Start(t, cluster.Options{})
		node := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.WaitLeader().HTTP})
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		node.Transport = transport
		f := &forgetful{node: node, t: t, seen: map[string]bool{}}
		server := httptest.NewServer(f)
		defer server.Close()
		out := run(t, l.desk(t), []string{"OSQUEUE_SERVERS=" + server.URL}, l.interpreter, "flow"+l.extension)
		// If the first answer to a write was lost, it is unknown whether the write was
		// committed, although the repetition was refused.
		checkFlow(t, out, strings.ReplaceAll(flowWanted, `409, "committed": "no"`, `409, "committed": "unknown"`))
		if f.lost < 20 {
			t.Errorf("only %d answers were lost", f.lost)
		}
	})
}

// A proxy in front of the nodes knows none of them for a while. Its 404 is not a refusal by the
// cluster: the worker continues when the nodes are back.
func TestNodesAreNotThere(t *testing.T) {
	eachLanguage(t, func(t *testing.T, l language) {
		c := l.share(t, 3)
		node := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: c.WaitLeader().HTTP})
		transport := &http.Transport{}
		defer transport.CloseIdleConnections()
		node.Transport = transport
		var there atomic.Bool
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if there.Load() {
				node.ServeHTTP(w, r)
				return
			}
			http.NotFound(w, r)
		}))
		defer server.Close()
		w := l.workerOf(t, c, "w", "OSQUEUE_SERVERS="+server.URL)
		eventually(t, "a claim to fail", func() error {
			if !strings.Contains(w.out.String(), "/v1/jobs/claim: ") {
				return errNotYet
			}
			return nil
		})
		there.Store(true)
		ending(t, c, enqueue(t, c, client.NewJob{Type: "square", Payload: json.RawMessage("3")}))
		w.signal(syscall.SIGTERM)
		w.ended(20 * time.Second)
	})
}
