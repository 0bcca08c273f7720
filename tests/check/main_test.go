package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/tests/history"
)

const ms = history.Millisecond

// good returns the history of a job that is enqueued, claimed and completed.
func good() *history.History {
	return &history.History{
		Run: history.Run{Name: "good", Seed: 7},
		Ops: []history.Op{
			{ID: 1, Client: "p1", Kind: history.Enqueue, Outcome: history.OK, Job: "a", MaxAttempts: 3, Call: 1 * ms, Return: 2 * ms},
			{ID: 2, Client: "w1", Kind: history.Claim, Outcome: history.OK, Call: 3 * ms, Return: 4 * ms, Jobs: []history.Held{{Job: "a", Token: 5, Attempt: 1}}},
			{ID: 3, Client: "w1", Kind: history.Complete, Outcome: history.OK, Job: "a", Token: 5, Result: "1", Call: 5 * ms, Return: 6 * ms},
		},
		Finals: []history.Final{{Job: "a", Status: "completed", Token: 5, Attempts: 1, Result: "1"}},
	}
}

func save(t *testing.T, h *history.History) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "h.jsonl")
	file, err := os.Create(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if err := h.Write(file); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestExitsAndTables(t *testing.T) {
	bad := good()
	bad.Finals = nil
	bad.Finals = append(bad.Finals, history.Final{Job: "b", Status: "dead"})
	missed := good()
	missed.Faults = []history.Fault{{Name: "partition", Target: "n1", End: ms, Proof: "no byte was withheld"}}
	cut := filepath.Join(t.TempDir(), "cut")
	if err := os.WriteFile(cut, []byte(`{"run":`), 0o600); err != nil {
		t.Fatal(err)
	}
	fine, broken, void := save(t, good()), save(t, bad), save(t, missed)
	for name, c := range map[string]struct {
		args []string
		code int
		out  []string
		errs string
	}{
		"good":        {[]string{fine}, 0, []string{"good seed 7, 3 operations (3 ok, 0 refused, 0 unknown)", "Kept", "ok", "Documents", "void", "nothing to check"}, ""},
		"bad":         {[]string{broken}, 1, []string{"violations", "Kept: job a was acknowledged and is lost (operations 1)", "job b was never submitted"}, ""},
		"bounded":     {[]string{broken, "--most", "1"}, 1, []string{"Kept: and 2 more"}, ""},
		"missed":      {[]string{void}, 3, []string{"0 of 1 faults hit", "has not hit: partition n1: no byte was withheld"}, ""},
		"undecided":   {[]string{fine, "--patience", "1ns"}, 3, []string{"timeout"}, ""},
		"two":         {[]string{fine, broken, void}, 1, []string{"good", "violations"}, ""},
		"unreadable":  {[]string{broken, cut}, 2, []string{"violations"}, "line 1"},
		"not there":   {[]string{fine + "x"}, 2, nil, "no such file"},
		"no file":     {nil, 2, nil, "name the history files"},
		"bad flag":    {[]string{fine, "--nothing"}, 2, nil, "unknown flag"},
		"two to draw": {[]string{fine, broken, "--timeline", "x"}, 2, nil, "takes one file"},
		"job":         {[]string{fine, "--job", "a"}, 2, nil, "is for --timeline"},
		"no job":      {[]string{fine, "--timeline", filepath.Join(t.TempDir(), "x")}, 2, nil, "name one with --job"},
		"no such job": {[]string{fine, "--timeline", filepath.Join(t.TempDir(), "x"), "--job", "z"}, 2, nil, "no calls on job \"z\""},
	} {
		var out, errs bytes.Buffer
		if code := run(c.args, &out, &errs); code != c.code {
			t.Errorf("%s: exit %d, want %d\n%s%s", name, code, c.code, &out, &errs)
		}
		for _, part := range c.out {
			if !strings.Contains(out.String(), part) {
				t.Errorf("%s: %q is not printed:\n%s", name, part, &out)
			}
		}
		if !strings.Contains(errs.String(), c.errs) || c.errs == "" && errs.Len() > 0 {
			t.Errorf("%s: printed %q on stderr, want %q", name, &errs, c.errs)
		}
	}
}

func TestTimelineIsDrawn(t *testing.T) {
	bad := good()
	bad.Ops[2].Token = 4 // no client has this token
	bad.Faults = []history.Fault{{Name: "partition", Target: "n1", Begin: ms, End: 2 * ms, Hit: true}}
	name := filepath.Join(t.TempDir(), "out.html")
	var out, errs bytes.Buffer
	if code := run([]string{save(t, bad), "--timeline", name}, &out, &errs); code != 1 {
		t.Fatalf("exit %d: %s", code, &errs)
	}
	page, err := os.ReadFile(name)
	if err != nil || !strings.Contains(string(page), "3 w1: complete (ok)") || !strings.Contains(string(page), "partition n1") {
		t.Errorf("%v\n%s", err, page)
	}
}
