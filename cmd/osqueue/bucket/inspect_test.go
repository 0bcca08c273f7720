package bucket

import (
	"context"
	"errors"
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
	"osqueue/storage"
	"osqueue/storage/archive"
)

// utc makes local time the same everywhere.
func utc(t *testing.T) {
	t.Helper()
	was := time.Local
	time.Local = time.UTC
	t.Cleanup(func() { time.Local = was })
}

var (
	ages  = regexp.MustCompile(`\b([0-9][0-9a-z.]* ago|[0-9]+d)\b`)
	sizes = regexp.MustCompile(`\b[0-9.]+[KM]iB\b`)
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

func TestInspectLargeDocument(t *testing.T) {
	utc(t)
	r := story(t, true)
	says(t, `
broker          127.0.0.1:1
written         2026-03-01 13:00:00 UTC (AGE)
lsn             2-12
clock           2026-03-01 12:00:12 UTC (AGE)
epoch           1 (node n1)
lineage         5f0c9c7e-0d3c-4a53-9a52-1f0b8c0a8e11
archive         checkpoint 2-1 and 11 entries after it, 2 objects of the log; 1.4KiB

TYPE   AVAILABLE  RUNNING  SCHEDULED  BLOCKED  COMPLETED  DEAD
mail   2          0        0          0        1          0
new    2          0        0          0        0          0
wc     0          0        0          0        1          0
(all)  4          0        0          0        2          0
in all: 2 completed, 0 dead, 0 cancelled; 0 workers`, "inspect", r.url())
}

// lists are the commands that read the queue, without --bucket.
var lists = []string{
	"job ls", "job ls --status all", "job ls --at 2-8", "job show m2", "job show m1", "job graph m1", "job logs m2", "dead ls", "dead show m1", "queue ls", "queue show mail",
	"cron ls", "cron show night", "batch ls", "worker ls", "hook ls", "stats",
}

// Both forms of the document show the same state.
func TestBothFormsAreReadAlike(t *testing.T) {
	large, inline := story(t, true), story(t, false)
	for _, line := range lists {
		for _, format := range []string{"--output=table", "--json"} {
			a := offlineRun(t, append(strings.Fields(line), "--bucket", large.url(), format)...)
			b := offlineRun(t, append(strings.Fields(line), "--bucket", inline.url(), format)...)
			if a.Code != view.ExitOK || b.Code != view.ExitOK || ageless(a.Out) != ageless(b.Out) {
				t.Errorf("%s %s:\n%+v\n%+v", line, format, a, b)
			}
		}
	}
}

func TestInspectAtAnEarlierPoint(t *testing.T) {
	utc(t)
	r := story(t, true)
	says(t, `
ID  TYPE  STATUS     ATTEMPTS  AGE
m2  mail  available  0         1d
m3  mail  available  0         1d
w1  wc    available  0         1d`, "job", "ls", "--bucket", r.url(), "--at", "2-7")
	for at, want := range map[string]string{
		"2-7":                  "state 2-7 of 2026-03-01 12:00:07 UTC (AGE); the newest is 2-12; broker 127.0.0.1:1 wrote AGE",
		"2026-03-01T12:00:07Z": "state 2-7 of 2026-03-01 12:00:07 UTC (AGE); the newest is 2-12; broker 127.0.0.1:1 wrote AGE",
		"2026-03-01 12:00:08":  "state 2-8 of 2026-03-01 12:00:08 UTC (AGE); the newest is 2-12; broker 127.0.0.1:1 wrote AGE",
		"2-12":                 "state 2-12 of 2026-03-01 12:00:12 UTC (AGE); broker 127.0.0.1:1 wrote AGE",
		"1s":                   "state 2-12 of 2026-03-01 12:00:12 UTC (AGE); broker 127.0.0.1:1 wrote AGE",
		"-1s":                  "state 2-12 of 2026-03-01 12:00:12 UTC (AGE); broker 127.0.0.1:1 wrote AGE",
	} {
		got := offlineRun(t, "job", "ls", "--bucket", r.url(), "--at="+at)
		if got.Code != view.ExitOK || ageless(got.Err) != want {
			t.Errorf("%s: %+v", at, got)
		}
	}
	var sum stateSummary
	got := offlineRun(t, "inspect", r.url(), "--at", "2-7", "--json")
	if err := json.Unmarshal([]byte(got.Out), &sum); err != nil || sum.LSN != "2-7" || sum.Newest != "2-12" || sum.Stats.Completed != 1 || sum.AgeMs == 0 {
		t.Errorf("%+v %v", sum, err)
	}
}

// A job has its history as of the point that is asked for.
func TestJobAtAPoint(t *testing.T) {
	r := story(t, true)
	for at, attempts := range map[string]int{"2-7": 0, "2-8": 0, "2-9": 1, "2-12": 1} {
		var job v1.Job
		got := offlineRun(t, "job", "show", "m2", "--bucket", r.url(), "--at", at, "--json")
		if err := json.Unmarshal([]byte(got.Out), &job); err != nil || len(job.History) != attempts || !strings.HasPrefix(got.Err, "state "+at+" of ") {
			t.Errorf("at %s: %v %+v", at, err, got)
		}
		if attempts > 0 && (job.History[0].Error != "out of paper" || *job.History[0].WorkerID != "w1") {
			t.Errorf("%+v", job.History)
		}
	}
	if got := offlineRun(t, "job", "show", "m2", "--bucket", r.url()); !strings.Contains(got.Out, "attempt 1   failed after 1s on w1: out of paper") {
		t.Errorf("%+v", got)
	}
	fails(t, []string{"job", "show", "n1", "--bucket", r.url(), "--at", "2-7"}, `"n1": no such job`)
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

func TestInspectHistory(t *testing.T) {
	utc(t)
	r := gapped(t)
	says(t, `
FROM  TO    SINCE                    UNTIL                    LENGTH
2-1   2-12  2026-03-01 12:00:01 UTC  2026-03-01 12:00:12 UTC  11s
2-15  2-16  2026-03-01 12:00:15 UTC  2026-03-01 12:00:16 UTC  1s`, "inspect", r.url(), "--history")
	says(t, `
{"from":"2-1","to":"2-12","since":1772366401000,"until":1772366412000}
{"from":"2-15","to":"2-16","since":1772366415000,"until":1772366416000}`, "inspect", r.url(), "--history", "--json")
	got := offlineRun(t, "inspect", r.url(), "--history")
	if !regexp.MustCompile(`In the bucket: 2 checkpoints \(\S+ ?\S*\), 3 objects of the log \(`).MatchString(got.Err) {
		t.Errorf("%s", got.Err)
	}
	// In the hole is what was before it, by time, but no state has its LSNs.
	got = offlineRun(t, "job", "ls", "--bucket", r.url(), "--at", "2026-03-01T12:00:14Z")
	if got.Code != view.ExitOK || !strings.HasPrefix(got.Err, "state 2-12 of ") {
		t.Errorf("%+v", got)
	}
	for _, at := range []string{"2-13", "2-17", "1-5", "2026-02-01"} {
		fails(t, []string{"inspect", r.url(), "--at", at},
			"--at "+at, "has no such state", "2-1 (2026-03-01T12:00:01Z) up to 2-12 (2026-03-01T12:00:12Z)", "2-15 (2026-03-01T12:00:15Z) up to 2-16")
	}
}

func TestInspectRefusesWhatCannotBeMeant(t *testing.T) {
	r := story(t, true)
	for line, want := range map[string]string{
		"--history --at 2-7":    "remove --at",
		"--at soon":             `"soon" is neither an LSN nor a time`,
		"--at 0-0":              "neither an LSN nor a time",
		"--at 2199-01-01":       "is in the future",
		"--at 2-7 --timeout 0s": "must be positive",
	} {
		got := offlineRun(t, append([]string{"inspect", r.url()}, strings.Fields(line)...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

// Damage is reported with the next step for the user. A damaged state is never shown as
// complete.
func TestInspectDamaged(t *testing.T) {
	r := story(t, true)
	damaged := r.segment(1)
	r.flip(damaged)
	got := fails(t, []string{"inspect", r.url()}, filepath.Base(damaged), "osqueue verify "+r.url())
	if got.Out != "" {
		t.Errorf("%s", got.Out)
	}
	if got := offlineRun(t, "inspect", r.url(), "--at", "2-4"); got.Code != view.ExitOK {
		t.Errorf("what is before the damage: %+v", got)
	}
	fails(t, []string{"inspect", r.url(), "--at", "2-6"}, filepath.Base(damaged))
}

// A mistyped directory must not be made by looking into it.
func TestInspectWritesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	if got := offlineRun(t, "inspect", "file://"+dir); got.Code != view.ExitFailure || !strings.Contains(got.Err, "has no queue.json") {
		t.Errorf("%+v", got)
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
}

// Commands that repeat themselves do not take --bucket.
func TestBucketIsReadOnce(t *testing.T) {
	r := story(t, true)
	for line, want := range map[string]string{"job ls --watch": "remove --watch", "job logs m2 --follow": "remove --follow"} {
		got := offlineRun(t, append(strings.Fields(line), "--bucket", r.url())...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: %+v", line, got)
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
	utc(t)
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
			if err := os.WriteFile(filepath.Join(dir, "queue.json"), []byte(doc), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := offlineRun(t, "inspect", "file://"+dir); got.Code != view.ExitOK || len(got.Out) > 4<<10 {
				t.Errorf("status %d, %d bytes", got.Code, len(got.Out))
			}
		})
	}
}

// A link in a directory is not an object of it.
func TestInspectFollowsNoLinks(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "queue.json")
	doc := `{"broker":null,"brokerHeartbeat":0,"jobs":[],"completedTotal":0}`
	if err := errors.Join(os.WriteFile(outside, []byte(doc), 0o600), os.Symlink(outside, filepath.Join(dir, "queue.json"))); err != nil {
		t.Fatal(err)
	}
	fails(t, []string{"inspect", "file://" + dir}, "not a regular file")
}

// adopt marks a bucket without a queue, once it is confirmed, and nothing else.
func TestAdopt(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bucket")
	url := "file://" + dir
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if got := offlineRun(t, "bucket", "adopt", url); got.Code != view.ExitUsage || !strings.Contains(got.Err, "--yes") {
		t.Errorf("without --yes: %+v", got)
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) > 0 {
		t.Errorf("without --yes: %v, %v", entries, err)
	}
	says(t, url+" is marked: the leader of the cluster writes its state there", "bucket", "adopt", url, "--yes")
	data, err := os.ReadFile(filepath.Join(dir, storage.MarkerKey))
	if err != nil || storage.MarkerID(data) == "" {
		t.Errorf("the marker is %q, %v", data, err)
	}
	says(t, url+" has bucket-id: nothing to do", "bucket", "adopt", url, "--yes")
	if again, err := os.ReadFile(filepath.Join(dir, storage.MarkerKey)); err != nil || string(again) != string(data) {
		t.Errorf("the marker is %q, %v", again, err)
	}
}
