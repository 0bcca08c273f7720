package queue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
)

// logsServer has a job that dies while its events are followed.
func logsServer(t *testing.T) string {
	var reads atomic.Int32 // of the job: before the events, after each end
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/jobs/j", func(w http.ResponseWriter, _ *http.Request) {
		status := "in_progress"
		if reads.Add(1) > 2 {
			status = "dead"
		}
		fmt.Fprintf(w, `{"id":"j","status":%q,"attempts":2,"lastError":"second","history":[`+
			`{"number":1,"startedAt":1,"endedAt":2,"error":"first: line one\nline two","end":"failed"}]}`, status)
	})
	mux.HandleFunc("GET /v1/events", func(w http.ResponseWriter, r *http.Request) {
		if job := r.URL.Query().Get("job"); job != "j" {
			t.Errorf("the events of %q were asked for", job)
		}
		w.Header().Set("Content-Type", "text/event-stream")
		// The job died once and was retried: this is not its end.
		fmt.Fprint(w, "id: 3-1.1\nevent: job.dead\ndata: {\"id\":\"3-1.1\",\"kind\":\"job.dead\",\"jobId\":\"j\"}\n\n"+
			"id: 3-2.1\nevent: job.progress\ndata: {\"id\":\"3-2.1\",\"kind\":\"job.progress\",\"jobId\":\"j\",\"percent\":40,\"message\":\"halfway\"}\n\n")
		fmt.Fprint(w, "id: 3-3.1\nevent: job.dead\ndata: {\"id\":\"3-3.1\",\"kind\":\"job.dead\",\"jobId\":\"j\"}\n\n")
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

func TestJobLogs(t *testing.T) {
	t.Parallel()
	at := logsServer(t)
	const kept = "attempt 1  failed\nfirst: line one\nline two\n"
	if r := newTestCommand(t, at).Run("job", "logs", "j"); r.Code != 0 || r.Out != kept {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	r := newTestCommand(t, logsServer(t)).Run("job", "logs", "j", "-f")
	if r.Code != 1 || !strings.HasSuffix(r.Out, kept) || strings.Count(r.Out, "job.dead") != 2 || !strings.Contains(r.Out, "40%  halfway") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
}
