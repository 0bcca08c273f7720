package osqueue

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	v1 "osqueue/client/api/v1"
	"osqueue/compat/osqueue/queuev1"
	"osqueue/internal/limit"
)

// Pages are one list however they arrive, also when a payload looks like the end of a page, and when
// the last page has no job any more.
func TestPagesAreJoined(t *testing.T) {
	const trap = `{"jobId":"%d","payload":{"jobs":[1],"nextCursor":"x"}}`
	job := func(i int) string { return fmt.Sprintf(trap, i) }
	all := []string{job(0) + "," + job(1), job(2), job(3) + "," + job(4), ""}
	for size := 1; size < 300; size++ {
		api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			i := len(r.URL.Query().Get(v1.ParamCursor))
			body := `{"total":5,"jobs":[` + all[i] + `]`
			if i+1 < len(all) {
				body += `,"nextCursor":"` + strings.Repeat("c", i+1) + `"`
			}
			body += "}"
			w.Header().Set("Content-Length", fmt.Sprint(len(body)))
			for len(body) > 0 {
				n := min(size, len(body))
				_, _ = w.Write([]byte(body[:n]))
				body = body[n:]
			}
		})
		w := httptest.NewRecorder()
		New(Config{Native: api, Calls: fakeAPI{api}}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, v1.PathJobs, nil))
		want := `{"total":5,"jobs":[` + strings.Join(all[:3], ",") + `]}`
		if got := w.Body.String(); got != want || w.Header().Get("Content-Length") != "" {
			t.Fatalf("in parts of %d bytes, length %q\n got %s\nwant %s", size, w.Header().Get("Content-Length"), got, want)
		}
	}
}

// A list whose later page is missing breaks off: it must not look complete.
func TestAListBreaksOff(t *testing.T) {
	api := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		_, _ = w.Write([]byte(`{"jobs":[{}],"nextCursor":"c"}`))
	})
	defer func() {
		if p := recover(); p != http.ErrAbortHandler { //nolint:errorlint // net/http does not wrap it
			t.Errorf("it ends with %v", p)
		}
	}()
	New(Config{Native: api, Calls: fakeAPI{api}}).ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, v1.PathJobs, nil))
}

// Lists over WebSockets and Connect take bytes of the budget, are refused if they do not fit, and return all
// that they have taken.
func TestListsShareTheBudget(t *testing.T) {
	list := `{"total":1,"jobs":[{"id":"j","payload":"` + strings.Repeat("a", 1<<20) + `"}]}`
	budget := limit.NewBudget(4 << 20)
	most := atomic.Int64{}
	api := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for rest := list; rest != ""; {
			n := min(64<<10, len(rest))
			if _, err := io.WriteString(w, rest[:n]); err != nil {
				panic(http.ErrAbortHandler) // as the API does
			}
			rest = rest[n:]
			most.Store(max(most.Load(), budget.Used()))
		}
	})
	h := New(Config{Native: api, Calls: fakeAPI{api}, Inflight: budget})
	server := httptest.NewServer(h)
	t.Cleanup(server.Close)
	t.Cleanup(h.Close)
	address := strings.TrimPrefix(server.URL, "http://")
	ws := dial(t, address)
	defer ws.close()
	rpc := queuev1.NewQueueServiceClient(http.DefaultClient, server.URL)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	lists := func(others int64) (got incoming, overConnect error) {
		ws.send(`{"id":7,"method":"listJobs","params":{}}`)
		got = ws.receive()
		waitFor(t, "the end of the first list", func() bool { return budget.Used() == others })
		_, overConnect = rpc.ListJobs(t.Context(), connect.NewRequest(&queuev1.ListJobsRequest{}))
		return got, overConnect
	}
	if got, err := lists(0); !got.OK || len(got.Result) < 1<<20 || err != nil {
		t.Errorf("%v %d bytes; %v", got.OK, len(got.Result), err)
	}
	if n := most.Load(); n < listCopies<<20 {
		t.Errorf("a list has taken only %d bytes", n)
	}
	waitFor(t, "the budget to be free", func() bool { return budget.Used() == 0 })
	others := budget.Hold()
	others.Force(2 << 20)
	if got, err := lists(2 << 20); got.OK || connect.CodeOf(err) != connect.CodeUnavailable {
		t.Errorf("beyond the budget: %v; %v", got.OK, err)
	}
	others.Release()
	waitFor(t, "the budget to be free", func() bool { return budget.Used() == 0 })
	if got, err := lists(0); !got.OK || err != nil {
		t.Errorf("after that: %v; %v", got.OK, err)
	}
}
