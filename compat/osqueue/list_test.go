package osqueue

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"

	"osqueue/compat/compattest"
	"osqueue/compat/osqueue/queuev1"
	"osqueue/internal/limit"
)

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
	h := New(Config{Native: api, Calls: compattest.API{Handler: api}, Inflight: budget})
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
