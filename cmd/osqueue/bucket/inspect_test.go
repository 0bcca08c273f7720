package bucket

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
	"osqueue/storage/archive"
)

var (
	ages  = regexp.MustCompile(`\b([0-9][0-9a-z.]* ago|[0-9]+d)\b`)
	sizes = regexp.MustCompile(`\b[0-9.]+( |[KM]i)B\b`)
)

// ageless is a text without what depends on the moment, on how well things are
// compressed, and on how columns are padded.
func ageless(text string) string {
	text = sizes.ReplaceAllString(ages.ReplaceAllString(text, "AGE"), "SIZE")
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for i := range lines {
		lines[i] = strings.Join(strings.Fields(lines[i]), " ")
	}
	return strings.Join(lines, "\n")
}

// says runs a command line, which must end well, and compares its stdout.
func says(t *testing.T, want string, args ...string) {
	t.Helper()
	got := offlineRun(t, args...)
	if got.Code != view.ExitOK {
		t.Errorf("%v: %+v", args, got)
		return
	}
	if out := ageless(got.Out); out != ageless(want) {
		t.Errorf("%v:\n%s\nwant:\n%s", args, out, ageless(want))
	}
}

// fails runs a command line, and looks for texts in what it complains of.
func fails(t *testing.T, args []string, want ...string) clitest.Result {
	t.Helper()
	got := offlineRun(t, args...)
	if got.Code != view.ExitFailure {
		t.Errorf("%v: %+v", args, got)
	}
	for _, text := range want {
		if !strings.Contains(got.Err, text) {
			t.Errorf("%v: %q is not in\n%s", args, text, got.Err)
		}
	}
	return got
}

// lists are the commands that read the queue, without --bucket.
var lists = []string{
	"job ls", "job ls --status all", "job ls --at 2-8", "job show m2", "job show m1", "job graph m1", "job logs m2", "dead ls", "dead show m1", "queue ls", "queue show mail",
	"cron ls", "cron show night", "batch ls", "worker ls", "hook ls", "token ls", "token show k1", "stats",
}

// The same commands answer the same whether the document shows the jobs or not.
func TestTheJobsInTheDocumentChangeNoAnswer(t *testing.T) {
	bare, viewed := story(t, true), story(t, false)
	for _, line := range lists {
		for _, format := range []string{"--output=table", "--json"} {
			a := offlineRun(t, append(strings.Fields(line), "--bucket", bare.url(), format)...)
			b := offlineRun(t, append(strings.Fields(line), "--bucket", viewed.url(), format)...)
			if a.Code != view.ExitOK || b.Code != view.ExitOK || ageless(a.Out) != ageless(b.Out) {
				t.Errorf("%s %s:\n%+v\n%+v", line, format, a, b)
			}
		}
	}
}

func TestBucketChoosesJobs(t *testing.T) {
	r := story(t, true)
	for line, want := range map[string]string{
		"":                                     "m2 m3 n1 n2",
		"--status all":                         "m1 m2 m3 w1 n1 n2",
		"--status completed":                   "m1 w1",
		"--status completed,available":         "m1 m2 m3 w1 n1 n2",
		"--type mail":                          "m2 m3",
		"--tag t-m3":                           "m3",
		"--worker w1 --status all":             "m1 w1",
		"--created-after 2026-03-01T12:00:10Z": "n1 n2",
		"--created-before 2026-03-01T12:00:10Z --status all": "m1 m2 m3 w1",
		"--limit 2":       "m2 m3",
		"--limit 1 --all": "m2 m3 n1 n2",
		"--group g":       "",
		"--batch b":       "",
	} {
		got := offlineRun(t, append([]string{"job", "ls", "--bucket", r.url(), "--json"}, strings.Fields(line)...)...)
		var ids []string
		for _, text := range strings.Split(strings.TrimSpace(got.Out), "\n") {
			var job v1.Job
			if text != "" && json.Unmarshal([]byte(text), &job) != nil {
				t.Errorf("%s: %s", line, text)
			}
			if job.ID != "" {
				ids = append(ids, job.ID)
			}
		}
		if got.Code != view.ExitOK || strings.Join(ids, " ") != want {
			t.Errorf("%s: %v, want %s; %+v", line, ids, want, got)
		}
		if more := strings.Contains(got.Err, "There are more jobs than 2"); more != (line == "--limit 2") {
			t.Errorf("%s: %s", line, got.Err)
		}
	}
}

// The API of a bucket reads, and changes nothing.
func TestAPIOfABucket(t *testing.T) {
	r := story(t, true)
	g := &view.Globals{Out: &clitest.Buffer{}, Err: &clitest.Buffer{}}
	before := treeOf(t, r.dir)
	err := serveBucket(t.Context(), g, r.url(), view.Moment{}, time.Second, func(_ context.Context, h http.Handler) error {
		for target, want := range map[string]struct {
			status int
			text   string
		}{
			"GET /v1/jobs":           {200, `"id":"m2"`},
			"GET /v1/jobs?at=2-7":    {200, `"id":"w1"`},
			"GET /status":            {200, `"lsn":"2-12"`},
			"GET /v1/past":           {200, `"2-12"`},
			"GET /ui":                {200, "mail"},
			"GET /ui/jobs":           {200, "m2"},
			"GET /ui/cluster":        {200, "2-12"},
			"GET /ui/schedules":      {200, "night"},
			"POST /v1/jobs":          {403, "nothing can be changed"},
			"DELETE /v1/jobs/m1":     {403, "nothing can be changed"},
			"POST /ui/jobs/m1/retry": {403, "nothing can be changed"},
		} {
			method, path, _ := strings.Cut(target, " ")
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(method, path, strings.NewReader(`{"type":"x"}`)))
			if w.Code != want.status || !strings.Contains(w.Body.String(), want.text) {
				t.Errorf("%s: %d %s", target, w.Code, w.Body)
			}
		}
		return nil
	})
	if err != nil || treeOf(t, r.dir) != before {
		t.Errorf("%v; the bucket changed: %v", err, treeOf(t, r.dir) != before)
	}
}

// Hooks are listed from the bucket alone, and their secrets are not.
func TestHooksOfABucket(t *testing.T) {
	r := newRecorded(t)
	r.apply(&fsmpb.Mutation{Op: &fsmpb.Mutation_PutHook{PutHook: &fsmpb.PutHook{Hook: &fsmpb.Hook{
		Name: "ops", Url: "https://hooks.example.test/x", Kinds: uint64(outbox.Kinds(0).With(outbox.JobDead)), Secret: []byte("0123456789abcdef0123456789abcdef"),
	}}}})
	r.flush(false, begunAt)
	says(t, `
NAME  ON        STATE           PENDING  DELIVERED  FAILED  DROPPED
ops   job.dead  none delivered  0        0          0       0`, "hook", "ls", "--bucket", r.url())
	got := offlineRun(t, "hook", "ls", "--bucket", r.url(), "--json")
	if !strings.Contains(got.Out, `"url":"https://hooks.example.test/x"`) || strings.Contains(got.Out, "0123456789") || strings.Contains(got.Out, "MDEyMzQ1") {
		t.Errorf("%+v", got)
	}
}

// A history may begin before the first entry, when the queue has no clock yet.
func TestHistoryFromTheBeginning(t *testing.T) {
	until := time.Date(2026, 3, 1, 12, 0, 5, 0, time.UTC)
	span := archive.Span{Since: time.UnixMilli(0), To: fsm.LSN{Term: 2, Index: 5}, Until: until}
	want := "0-0 (the beginning) up to 2-5 (2026-03-01T12:00:05Z)"
	if got := spansText([]archive.Span{span}); !strings.HasSuffix(got, "\n  "+want) {
		t.Errorf("%s", got)
	}
	piece := spanOf(span)
	if got := strings.Join(piece.row(), "|"); got != "0-0|2-5|the beginning|2026-03-01 12:00:05 UTC|-" {
		t.Errorf("%s", got)
	}
	if got := (&statePoint{LSN: "0-0"}).text(until); got != "0-0, the beginning: empty" {
		t.Errorf("%s", got)
	}
}

// A document with a very long text is shown in short.
func TestInspectALongText(t *testing.T) {
	for name, text := range map[string]string{
		"letters":  strings.Repeat("x", 8<<20),
		"controls": strings.Repeat(`\u001b\u0007`, 1<<18),
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			doc := `{"broker":"` + text + `","brokerHeartbeat":0,"jobs":[],"completedTotal":0}`
			check(t, os.WriteFile(filepath.Join(dir, "queue.json"), []byte(doc), 0o600))
			if got := offlineRun(t, "inspect", "file://"+dir); got.Code != view.ExitOK || len(got.Out) > 4<<10 {
				t.Errorf("status %d, %d bytes", got.Code, len(got.Out))
			}
		})
	}
}
