package queue

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	v1 "osqueue/client/api/v1"
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
	mux.HandleFunc("GET /v1/jobs/j/logs", func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Query().Get("offset") {
		case "0":
			fmt.Fprint(w, `{"status":"in_progress","token":7,"offset":18,"chunks":[`+
				`{"attempt":1,"token":7,"offset":5,"bytes":4,"text":"one\n","lost":5},{"attempt":1,"token":7,"offset":9,"bytes":9,"text":"line one\n"}]}`)
		case "18":
			fmt.Fprint(w, `{"status":"in_progress","token":7,"offset":27,"chunks":[`+
				`{"attempt":1,"token":7,"offset":9,"bytes":18,"text":"line one\nline two\u001b"}]}`)
		default:
			fmt.Fprint(w, `{"status":"dead","token":7,"offset":27}`)
		}
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
	if r := osq.Command(t, at).Run("job", "logs", "j"); r.Code != 0 || r.Out != kept {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	r := osq.Command(t, logsServer(t)).Run("job", "logs", "j", "-f")
	if r.Code != 1 || !strings.HasSuffix(r.Out, kept) || strings.Count(r.Out, "job.dead") != 2 || !strings.Contains(r.Out, "40%  halfway") {
		t.Errorf("exit %d\n%s%s", r.Code, r.Out, r.Err)
	}
	for _, want := range []string{"… 5 bytes of the log are missing here\none\nline one\n", "line two\\x1b\n"} {
		if strings.Count(r.Out, want) != 1 {
			t.Errorf("want once: %q in\n%s", want, r.Out)
		}
	}
}

// The followed part of a log is not printed again at the end.
func TestRestOfAFollowedLog(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("0123456789\n", 3000)
	for name, c := range map[string]struct{ seen, log, want string }{
		"nothing followed":      {"", "a\nb", "a\nb"},
		"all followed":          {"a\nb\n", "a\nb", ""},
		"the end is missing":    {"a\n", "a\nb", "b"},
		"within a line":         {"a\nbc", "a\nbcd", "d"},
		"a cut log":             {long, "…" + long[len(long)-16000:], ""},
		"a cut log and its end": {long, "…" + long[len(long)-9000:] + "end", "end"},
		"another log":           {"a\n", "stored", "stored"},
	} {
		seen := make(followed)
		seen.add(&v1.LogChunk{Attempt: 1, Text: c.seen})
		if got := seen.restOfLog(1, c.log); got != c.want {
			t.Errorf("%s: %.40q", name, got)
		}
	}
	for name, c := range map[string]struct{ seen, text, want string }{
		"nothing followed": {"", "exit status 1: boom", "exit status 1: boom"},
		"a quoted log":     {"x\na: b\nboom\n", "exit: status 1: a: b\nboom", "exit: status 1"},
		"a cut log":        {"x\nboom\n", "exit status 1: …om", "exit status 1"},
		"only the log":     {"x\nboom\n", "boom", ""},
		"another error":    {"x\n", "lease: lost", "lease: lost"},
	} {
		seen := make(followed)
		seen.add(&v1.LogChunk{Attempt: 1, Text: c.seen})
		if got := seen.restOfError(1, c.text); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}
