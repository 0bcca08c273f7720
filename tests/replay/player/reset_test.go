package player

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"osqueue/tests/replay/transcript"
)

// nativeQueue implements the part of the native interface that a reset needs.
type nativeQueue struct {
	jobs  map[string]string // by id, their status
	stuck bool
	calls []string
}

func (q *nativeQueue) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	q.calls = append(q.calls, strings.TrimSpace(r.Method+" "+r.RequestURI+" "+string(body)))
	switch {
	case r.Method == http.MethodGet:
		var list []string
		for id, status := range q.jobs {
			list = append(list, fmt.Sprintf(`{"id":%q,"status":%q,"workerId":"w","token":7}`, id, status))
		}
		fmt.Fprintf(w, `{"jobs":[%s]}`, strings.Join(list, ","))
	case strings.HasSuffix(r.RequestURI, "/release"):
		for id := range q.jobs {
			q.jobs[id] = "unclaimed"
		}
		_, _ = io.WriteString(w, `{"lsn":"1-1"}`)
	case r.RequestURI == "/v1/jobs/delete":
		for id, status := range q.jobs {
			if status != "in_progress" && !q.stuck {
				delete(q.jobs, id)
			}
		}
		_, _ = io.WriteString(w, `{"count":1,"lsn":"1-1"}`)
	default:
		http.NotFound(w, r)
	}
}

func TestReset(t *testing.T) {
	q := &nativeQueue{jobs: map[string]string{"a/b": "in_progress"}}
	server := httptest.NewServer(q)
	defer server.Close()
	p := New(Options{Servers: Servers{Base: server.URL}})
	defer p.Close()
	if err := p.reset(t.Context()); err != nil || len(q.jobs) != 0 {
		t.Fatalf("%v, left are %v", err, q.jobs)
	}
	want := `GET /v1/jobs?status=all
POST /v1/jobs/a%2Fb/release {"workerId":"w","token":7}
POST /v1/jobs/delete {"filter":{"all":true}}
GET /v1/jobs?status=all`
	if got := strings.Join(q.calls, "\n"); got != want {
		t.Errorf("calls\n%s\nwant\n%s", got, want)
	}

	q.jobs["c"], q.stuck = "unclaimed", true
	if err := p.reset(t.Context()); err == nil {
		t.Error("a queue that does not become empty is no error")
	}
	server.Close()
	cases, err := transcript.Load([]byte(`[{"name":"1","seq":"a","request":{"method":"GET","path":"/"},"response":{"status":200}}]`))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := p.Play(t.Context(), transcript.File{Cases: cases}, nil); err == nil {
		t.Error("nobody answers, and that is no error")
	}
}
