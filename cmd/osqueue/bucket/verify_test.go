package bucket

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

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

func TestVerifyWhole(t *testing.T) {
	utc(t)
	r := gapped(t)
	want := `
document    queue.json, LSN 2-16
checked     2 checkpoints, 3 segments (` + verifiedSize(t, r) + `), 0 segment index files; 12 entries in all
restorable  2-1 (2026-03-01 12:00:01 UTC) up to 2-12 (2026-03-01 12:00:12 UTC)
restorable  2-15 (2026-03-01 12:00:15 UTC) up to 2-16 (2026-03-01 12:00:16 UTC)

No defects.`
	before := treeOf(t, r.dir)
	says(t, want, "verify", r.url())
	says(t, want, "verify", r.url(), "--repair")
	if after := treeOf(t, r.dir); after != before {
		t.Error("something was written")
	}
}

// verifiedSize returns the sizes in the output of verify, which depend on the
// compressor.
func verifiedSize(t *testing.T, r *recorded) string {
	t.Helper()
	var report verifyReport
	got := offlineRun(t, "verify", r.url(), "--json")
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || got.Code != view.ExitOK || !report.OK || report.Bytes == 0 {
		t.Fatalf("%v %+v", err, got)
	}
	if !strings.Contains(got.Out, `"checkpoints":2,"segments":3,"segmentIndexes":0`) {
		t.Errorf("a name is missing: %s", got.Out)
	}
	return view.BytesText(report.Bytes)
}

// Each kind of damage is named with its object, and with what follows.
func TestVerifyDamaged(t *testing.T) {
	for name, tc := range map[string]struct {
		damage func(r *recorded) (key string)
		large  bool
		want   []string
	}{
		"a segment that the state needs": {
			func(r *recorded) string { r.flip(r.segment(1)); return r.key(r.segment(1)) }, true,
			[]string{"log segment after 2-4 up to 2-7", "a cluster that has lost its nodes cannot recover", "--at 2-4 --to"},
		},
		"a segment that is gone": {
			func(r *recorded) string { p := r.segment(0); r.check(os.Remove(p)); return r.key(p) }, true,
			[]string{"log segment after 2-1 up to 2-4", "not found"},
		},
		"the document": {
			func(r *recorded) string {
				r.check(os.Truncate(filepath.Join(r.dir, "queue.json"), 200))
				return "queue.json"
			}, true,
			[]string{"cannot recover from this document"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := story(t, tc.large)
			key := tc.damage(r)
			before := treeOf(t, r.dir)
			got := offlineRun(t, "verify", r.url())
			if got.Code != view.ExitFailure || got.Err != "" {
				t.Errorf("%+v", got)
			}
			for _, text := range append(tc.want, "\n"+key+"\n", "1 defect.", "osqueue verify "+r.url()+" --repair") {
				if !strings.Contains(got.Out, text) {
					t.Errorf("%q is missing in\n%s", text, got.Out)
				}
			}
			var report verifyReport
			got = offlineRun(t, "verify", r.url(), "--json")
			if err := json.Unmarshal([]byte(got.Out), &report); err != nil || got.Code != view.ExitFailure || report.OK || len(report.Defects) != 1 || report.Defects[0].Key != key {
				t.Errorf("%v %+v", err, got)
			}
			if after := treeOf(t, r.dir); after != before {
				t.Error("something was written")
			}
		})
	}
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

func TestVerifyDoesNotRepairWhileALeaderLives(t *testing.T) {
	r := story(t, true)
	r.flush(true, time.Now())
	r.flip(r.segment(1))
	before := treeOf(t, r.dir)
	fails(t, []string{"verify", r.url(), "--repair"}, "127.0.0.1:1", "Stop all nodes", "--force")
	if after := treeOf(t, r.dir); after != before {
		t.Error("something was written")
	}
	if got := offlineRun(t, "verify", r.url(), "--repair", "--force"); got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
}

// Damage that affects only earlier states cannot be repaired, and verify says so.
func TestVerifyDamagedHistory(t *testing.T) {
	r := gapped(t)
	r.flip(r.segment(1))
	for _, flags := range [][]string{nil, {"--repair"}} {
		got := offlineRun(t, append([]string{"verify", r.url()}, flags...)...)
		if got.Code != view.ExitFailure || !strings.Contains(got.Out, "The newest one does not need it.") || strings.Contains(got.Out, "Repaired") {
			t.Errorf("%v: %+v", flags, got)
		}
	}
}

// Of a document that tells nothing, nothing is claimed.
func TestVerifyUnreadable(t *testing.T) {
	r := story(t, true)
	r.check(os.WriteFile(filepath.Join(r.dir, "queue.json"), []byte("garbage"), 0o600))
	got := offlineRun(t, "verify", r.url())
	if got.Code != view.ExitFailure || !strings.Contains(got.Out, "queue.json, which cannot be read\n") || strings.Contains(got.Out, "0-0") ||
		!strings.Contains(got.Out, "No other object was checked") {
		t.Errorf("%+v", got)
	}
	var report verifyReport
	got = offlineRun(t, "verify", r.url(), "--repair", "--force", "--json")
	if err := json.Unmarshal([]byte(got.Out), &report); err != nil || !report.Unreadable || len(report.Spans) == 0 {
		t.Errorf("%v %+v", err, got)
	}
}

// Commands that read a damaged document refer to verify.
func TestDamageLeadsToVerify(t *testing.T) {
	r := story(t, true)
	r.check(os.WriteFile(filepath.Join(r.dir, "queue.json"), []byte("garbage"), 0o600))
	for _, args := range [][]string{
		{"inspect", r.url()},
		{"job", "show", "m1", "--bucket", r.url()},
		{"inspect", r.url(), "--history"},
		{"inspect", r.url(), "--at", "2-4"},
		{"restore", "--from", r.url(), "--dry-run"},
		{"branch", "--from", r.url(), "--dry-run"},
	} {
		fails(t, args, "osqueue verify "+r.url())
	}
}

func TestVerifyWrongUse(t *testing.T) {
	_, dir := empty(t)
	fails(t, []string{"verify", "file://" + dir}, "has no queue.json")
	fails(t, []string{"verify", "file://" + dir, "--repair"}, "has no queue.json")
	if _, err := os.Stat(dir); err == nil {
		t.Error("the directory was made")
	}
	for _, line := range []string{"", "file:///x --force", "file:///x --lineage l", "ftp://x", "file:///x extra", "file:///x --timeout -1s"} {
		if got := offlineRun(t, append([]string{"verify"}, strings.Fields(line)...)...); got.Code != view.ExitUsage {
			t.Errorf("%s: %+v", line, got)
		}
	}
}
