package bucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// segment is the path of a segment of a story, by its place.
func (r *recorded) segment(i int) string {
	r.t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "log", recordedLineage, "*.seg"))
	if err != nil || i >= len(found) {
		r.t.Fatalf("%v %v", found, err)
	}
	return found[i]
}

// flip changes a bit in the middle of a file.
func (r *recorded) flip(path string) {
	r.t.Helper()
	data, err := os.ReadFile(path)
	r.check(err)
	data[len(data)/2] ^= 1
	r.check(os.WriteFile(path, data, 0o600))
}

func (r *recorded) key(path string) string {
	r.t.Helper()
	rel, err := filepath.Rel(r.dir, path)
	r.check(err)
	return filepath.ToSlash(rel)
}

// The newest complete state becomes the document, no object is removed, and the losses
// are printed.
func TestVerifyRepairs(t *testing.T) {
	r := story(t, true)
	r.flip(r.segment(1))
	before := treeOf(t, r.dir)
	got := offlineRun(t, "verify", r.url(), "--repair")
	for _, text := range []string{
		"Repaired: the state of queue.json is 2-4 now. Jobs: 4 available.", "It was 2-12: changes after 2-4 are lost", "is kept as conflicts/2-12-",
	} {
		if !strings.Contains(got.Out, text) {
			t.Errorf("%q is missing in\n%+v", text, got)
		}
	}
	if got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
	after := treeOf(t, r.dir)
	for line := range strings.SplitSeq(before, "\n"+r.dir) {
		if !strings.Contains(line, "queue.json") && !strings.Contains(after, line) {
			t.Errorf("is gone: %.200s", line)
		}
	}
	_, m := stored(t, r.dir)
	if m.Counts().Of(fsm.Unclaimed) != 4 || m.Job("n1") != nil {
		t.Errorf("%s", statusesOf(m))
	}
	if got := offlineRun(t, "inspect", r.url()); got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
}

func TestVerifyRepairsTheDocumentOnly(t *testing.T) {
	r := story(t, true)
	r.check(os.Truncate(filepath.Join(r.dir, "queue.json"), 200))
	fails(t, []string{"verify", r.url(), "--repair"}, "does not show whether a leader is alive", "all nodes are stopped, and give --force")
	got := offlineRun(t, "verify", r.url(), "--repair", "--force", "--json")
	var report verifyReport
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || got.Code != view.ExitOK || report.Repaired == nil || report.Repaired.Is != "2-7" {
		t.Fatalf("%v %+v", err, got)
	}
	if kept, err := os.ReadFile(filepath.Join(r.dir, report.Repaired.Copy)); err != nil || len(kept) != 200 {
		t.Errorf("%d %v", len(kept), err)
	}
}
