package bucket

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/cmd/osqueue/view"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/document"
	"osqueue/storage/file"
)

// empty is the URL of a directory that is not there yet.
func empty(t *testing.T) (url, dir string) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "new")
	return "file://" + dir, dir
}

// stored is the document in a directory, and its state.
func stored(t testing.TB, dir string) (*document.File, *fsm.Machine) {
	t.Helper()
	bucket, err := file.OpenDir(t.Context(), dir)
	check(t, err)
	seen, err := election.Read(t.Context(), bucket, "queue.json")
	if err != nil || seen.Doc == nil {
		t.Fatalf("%+v %v", seen, err)
	}
	m, err := archive.Machine(t.Context(), bucket, seen.Doc)
	check(t, err)
	return seen.Doc, m
}

func statusesOf(m *fsm.Machine) string {
	var all []string
	m.View().List(fsm.Index{}, everyStatus, 0, func(j *fsm.Job) bool {
		all = append(all, j.ID+" "+j.Status.String())
		return true
	})
	return strings.Join(all, ", ")
}

// A dry run shows the difference, and makes nothing.
func TestRestoreDryRun(t *testing.T) {
	r := story(t, true)
	to, dir := empty(t)
	want := `
from      ` + r.url() + `  2-12 of 2026-03-01 12:00:12 UTC (1d ago)
restored                   2-7 of 2026-03-01 12:00:07 UTC (1d ago)
to        ` + to + `       empty

TYPE         STATE      NEWEST  RESTORED  CHANGE
mail         available  2       2         -
mail         completed  1       1         -
new          available  2       0         -2
wc           available  0       1         +1
wc           completed  1       0         -1
(schedules)  -          1       1         -

Nothing was written: this is a dry run.`
	says(t, want, "restore", "--from", r.url(), "--at", "2-7", "--to", to, "--dry-run")
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it was made: %v", err)
	}
	says(t, strings.Replace(want, "to        "+to+"       empty\n", "", 1), "restore", "--from", r.url(), "--at", "2-7", "--dry-run")
}

// A restore writes the state of the chosen point, paused, and an empty cluster may adopt
// it. A cluster with the old state, or another one, may not.
func TestRestoreAnEarlierState(t *testing.T) {
	r := story(t, true)
	to, dir := empty(t)
	before := treeOf(t, r.dir)
	got := offlineRun(t, "restore", "--from", r.url(), "--at", "2-7", "--to", to)
	if got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	doc, m := stored(t, dir)
	if now := statusesOf(m); now != "m1 completed, m2 unclaimed, m3 unclaimed, w1 unclaimed" {
		t.Errorf("%s", now)
	}
	for _, name := range []string{"mail", "wc", "report"} {
		if q := m.View().Queue(name); q == nil || !q.Paused {
			t.Errorf("%s is not paused: %+v", name, q)
		}
	}
	if !m.View().Cron("night").Paused {
		t.Error("the schedule is not paused")
	}
	for _, text := range []string{
		"Written to " + to + ": 4 jobs, LSN 3-8, lineage " + doc.Lineage(), "--data EMPTY-DIRECTORY",
		"osqueue queue resume mail report wc\n", "osqueue cron resume night\n",
	} {
		if !strings.Contains(got.Out, text) {
			t.Errorf("%q is missing in\n%s", text, got.Out)
		}
	}
	if after := treeOf(t, r.dir); after != before {
		t.Errorf("--from was changed:\n%s\n%s", before, after)
	}
	adoptable(t, doc)
}

func adoptable(t testing.TB, doc *document.File) {
	t.Helper()
	silent := election.Silence{For: 10 * time.Second, Timeout: 10 * time.Second, Now: time.Now()}
	seen := election.Observed{Doc: doc, Version: "v"}
	fresh := election.Candidate{Node: "x1", Cluster: "c2", LSN: fsm.LSN{Term: 2, Index: 4}}
	if d := election.Decide(seen, fresh, silent); d.Action != election.Adopt {
		t.Errorf("an empty cluster: %+v", d)
	}
	for _, lineage := range []string{recordedLineage, "another", ""} {
		old := election.Candidate{
			Node: "n1", Cluster: "c1", Lineage: lineage, Epoch: 1, LSN: fsm.LSN{Term: 9, Index: 99}, Populated: true,
		}
		if d := election.Decide(seen, old, silent); d.Action != election.Refuse || !strings.Contains(d.Reason, "osqueue restore") {
			t.Errorf("a cluster of lineage %q: %+v", lineage, d)
		}
	}
}

// treeOf is all that is in a directory, as text.
func treeOf(t testing.TB, dir string) string {
	t.Helper()
	var all bytes.Buffer
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		all.WriteString(path + " ")
		if e.Type()&fs.ModeSymlink != 0 {
			target, err := os.Readlink(path)
			all.WriteString(target + "\n")
			return err
		}
		data, err := os.ReadFile(path)
		all.Write(data)
		all.WriteString("\n")
		return err
	})
	check(t, err)
	return all.String()
}

// A state that is too long for the document gets a checkpoint.
func TestRestoreLargeState(t *testing.T) {
	r := newRecorded(t)
	for i := range 40 {
		ids := make([]string, 100)
		for k := range ids {
			ids[k] = "job-" + strings.Repeat("x", 40) + string(rune('a'+i)) + "-" + string(rune('A'+k))
		}
		r.enqueue("bulk", ids...)
	}
	r.flush(true, begunAt)
	to, dir := empty(t)
	if got := offlineRun(t, "restore", "--from", r.url(), "--to", to, "--json"); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	} else {
		var report restoreReport
		if err := json.Unmarshal([]byte(got.Out), &report); err != nil || report.Written == nil || report.Written.Jobs != 4000 {
			t.Errorf("%v %s", err, got.Out)
		}
	}
	doc, m := stored(t, dir)
	if doc.Viewed || m.Counts().Of(fsm.Unclaimed) != 4000 || m.Ready(nil) {
		t.Errorf("%d jobs", m.Counts().Of(fsm.Unclaimed))
	}
	adoptable(t, doc)
}

// A heartbeat says nothing if a clock is wrong: a cluster is dead if its document does not
// change for the broker timeout.
func TestRestoreListensBeforeItReplaces(t *testing.T) {
	for _, ahead := range []time.Duration{365 * 24 * time.Hour, 0, -time.Minute} {
		r, other := story(t, true), story(t, false)
		other.flush(false, time.Now().Add(ahead))
		path := filepath.Join(other.dir, "queue.json")
		data, err := os.ReadFile(path)
		check(t, err)
		args := []string{"restore", "--from", r.url(), "--to", other.url(), "--replace", "--broker-timeout"}
		stop, done := make(chan struct{}), make(chan error, 1)
		go func() { // a broker that lives
			for i := 0; ; i++ {
				select {
				case <-stop:
					done <- nil
					return
				case <-time.After(20 * time.Millisecond):
				}
				if err := os.WriteFile(path+".new", append(bytes.Clone(data), strings.Repeat(" ", i)...), 0o600); err != nil {
					done <- err
					return
				}
				if err := os.Rename(path+".new", path); err != nil {
					done <- err
					return
				}
			}
		}()
		fails(t, append(args, "5s"), "has just changed", "stop all of its nodes")
		close(stop)
		check(t, <-done)
		if got := offlineRun(t, append(args, "300ms")...); got.Code != view.ExitOK {
			t.Errorf("%v ahead: %+v", ahead, got)
		}
	}
}

// A queue is written over only if that is asked for, and its cluster is dead; and
// a copy of it is kept, from which it comes back.
func TestRestoreReplaces(t *testing.T) {
	r, other := story(t, true), story(t, false)
	fails(t, []string{"restore", "--from", r.url(), "--to", other.url()}, "holds a queue already", recordedLineage, "--replace")
	fails(t, []string{"branch", "--from", r.url(), "--to", other.url()}, "choose another bucket or prefix")
	got := offlineRun(t, "restore", "--from", r.url(), "--to", other.url(), "--dry-run")
	if got.Code != view.ExitOK || !strings.Contains(got.Out, "Without --dry-run it would be refused") || !strings.Contains(got.Out, "AT --to") {
		t.Errorf("%+v", got)
	}
	dry := []string{"restore", "--from", r.url(), "--to", other.url(), "--replace", "--dry-run"}
	refused := func(want bool, args ...string) {
		t.Helper()
		got := offlineRun(t, append(dry, args...)...)
		if got.Code != view.ExitOK || strings.Contains(got.Out, "has just stopped: broker 127.0.0.1:1 wrote") != want {
			t.Errorf("refused: want %v: %+v", want, got)
		}
	}
	other.flush(false, time.Now())
	refused(true)
	other.next = time.Minute // the heartbeat is old, and the document says that another cluster has to wait for longer
	other.flush(false, time.Now().Add(-11*time.Second))
	refused(true)
	other.next = 0
	other.flush(false, time.Now().Add(-11*time.Second))
	refused(true, "--broker-timeout", "1m")
	refused(false, "--broker-timeout", "1s")
	was, err := os.ReadFile(filepath.Join(other.dir, "queue.json"))
	check(t, err)
	got = offlineRun(t, "restore", "--from", r.url(), "--at", "2-7", "--to", other.url(), "--replace", "--json")
	var report restoreReport
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || report.Written == nil || report.There == nil || report.There.LSN != "2-12" {
		t.Fatalf("%v %+v", err, got)
	}
	if kept, err := os.ReadFile(filepath.Join(other.dir, report.Written.Copy)); err != nil || !bytes.Equal(kept, was) {
		t.Errorf("the copy: %v", err)
	}
	doc, _ := stored(t, other.dir)
	if doc.Lineage() != report.Written.Lineage || doc.Header.Epoch <= 1 {
		t.Errorf("%+v", doc.Header)
	}
	back := []string{"restore", "--from", other.url(), "--document", report.Written.Copy, "--to", other.url(), "--replace", "--at", "2-12"}
	if got := offlineRun(t, back...); got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	if _, m := stored(t, other.dir); m.Job("n2") == nil {
		t.Errorf("%s", statusesOf(m))
	}
}

// A queue whose nodes have just stopped is replaced after the rest of the broker timeout.
func TestRestoreWaitsForTheEndOfACluster(t *testing.T) {
	r, other := story(t, true), story(t, false)
	other.flush(false, time.Now().Add(-500*time.Millisecond))
	began := time.Now()
	got := offlineRun(t, "restore", "--from", r.url(), "--to", other.url(), "--replace", "--broker-timeout", "1500ms")
	if took := time.Since(began); got.Code != view.ExitOK || !strings.Contains(got.Err, "to see whether it has stopped") || took < 600*time.Millisecond {
		t.Errorf("after %v: %+v", took, got)
	}
}

// A queue is rewound where it is. Tokens and LSNs go on growing for those who have
// seen what is left behind.
func TestRestoreInPlace(t *testing.T) {
	r := story(t, true)
	was, _ := stored(t, r.dir)
	got := offlineRun(t, "restore", "--from", r.url(), "--at", "2-7", "--to", r.url())
	if got.Code != view.ExitUsage || !strings.Contains(got.Err, "rewound in place") {
		t.Errorf("%+v", got)
	}
	got = offlineRun(t, "restore", "--from", r.url(), "--at", "2-7", "--to", r.url(), "--replace")
	if got.Code != view.ExitOK || !strings.Contains(got.Out, "Nodes with the previous state refuse the new document") {
		t.Fatalf("%+v", got)
	}
	doc, m := stored(t, r.dir)
	if doc.LSN().Compare(was.LSN()) <= 0 || doc.Header.Epoch <= was.Header.Epoch || m.Meta().LastToken <= was.Header.LastToken {
		t.Errorf("%+v after %+v", doc.Header, was.Header)
	}
	if doc.Header.Term != 3 || m.Job("n1") != nil || m.Job("w1").Status != fsm.Unclaimed {
		t.Errorf("%s", statusesOf(m))
	}
	adoptable(t, doc)
}

// The output for a queue of many types is short for people and complete for programs.
func TestRestoreOfManyTypes(t *testing.T) {
	r := newRecorded(t)
	for i := range 60 {
		r.enqueue(fmt.Sprintf("type %02d", i), fmt.Sprint("job-", i))
	}
	at := r.lsn().String()
	for i := range 50 {
		r.complete(r.claim(fmt.Sprintf("type %02d", i)))
	}
	r.flush(true, begunAt)
	to, _ := empty(t)
	got := offlineRun(t, "restore", "--from", r.url(), "--at", at, "--to", to)
	for _, text := range []string{
		"… and 70 more rows; --json has all of them", "osqueue queue resume 'type 00' 'type 01' ", " 'type 11' …\n    (60 names; --json has all of them)\n",
	} {
		if !strings.Contains(got.Out, text) {
			t.Errorf("%q is missing in\n%+v", text, got)
		}
	}
	if n := strings.Count(got.Out, "\n"); n > 70 {
		t.Errorf("%d lines", n)
	}
	var report restoreReport
	got = offlineRun(t, "restore", "--from", r.url(), "--at", at, "--dry-run", "--json")
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || len(report.Paused.Types) != 60 || len(report.Rows) != 110 {
		t.Errorf("%v %+v", err, report)
	}
}
