package main

import (
	"encoding/json"
	"strings"
	"testing"

	"go.uber.org/goleak"

	v1 "osqueue/client/api/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// flawless returns a run of two jobs, the second of which took two attempts.
func flawless() *evidence {
	return &evidence{
		words:     map[string]int{"/a.go": 3, "/b.go": 4},
		submitted: map[string]string{"j1": "/a.go", "j2": "/b.go"},
		jobs: []v1.Job{
			{ID: "j1", Status: v1.StatusCompleted, Token: 11, Attempts: 1, Result: json.RawMessage(`"3 /a.go"`)},
			{ID: "j2", Status: v1.StatusCompleted, Token: 13, Attempts: 2, Result: json.RawMessage(`"4 /b.go"`)},
		},
		completed: 2,
		claims: []claim{
			{JobID: "j1", Token: 11, Outcome: outcomeCompleted, StartedAt: 100, EndedAt: 200},
			{JobID: "j2", Token: 13, Outcome: outcomeCompleted, StartedAt: 300, EndedAt: 900},
			{JobID: "j2", Token: 12, Outcome: "lost", StartedAt: 100, EndedAt: 300},
		},
	}
}

func TestFlawlessRunPasses(t *testing.T) {
	e := flawless()
	if err := e.check(); err != nil {
		t.Fatal(err)
	}
	if e.repeated() != 1 || e.jobSum() != 7 || longestPause(e.claims) != 700 {
		t.Errorf("repeated %d, sum %d, pause %d", e.repeated(), e.jobSum(), longestPause(e.claims))
	}
}

func TestEveryFlawIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(e *evidence)
		want  string
	}{
		"job missing":        {func(e *evidence) { e.jobs = e.jobs[:1] }, "job j2 (/b.go) is missing"},
		"job listed twice":   {func(e *evidence) { e.jobs = append(e.jobs, e.jobs[0]) }, "listed twice"},
		"foreign job":        {func(e *evidence) { e.jobs[0].ID = "j9" }, "job j9: was never submitted"},
		"job dead":           {func(e *evidence) { e.jobs[1].Status = v1.StatusDead }, "job j2: is dead"},
		"wrong count":        {func(e *evidence) { e.jobs[0].Result = json.RawMessage(`"5 /a.go"`) }, "counted 5 words"},
		"wrong file":         {func(e *evidence) { e.jobs[0].Result = json.RawMessage(`"3 /c.go"`) }, "in /c.go"},
		"no result":          {func(e *evidence) { e.jobs[0].Result = nil }, "job j1: result"},
		"sum":                {func(e *evidence) { e.words["/a.go"] = 2 }, "the jobs counted 7 words, wc 6"},
		"file not submitted": {func(e *evidence) { e.words["/c.go"] = 0 }, "submitted for 2 files, find has found 3"},
		"file not found":     {func(e *evidence) { delete(e.words, "/b.go") }, "find has not found /b.go"},
		"completed twice":    {func(e *evidence) { e.completed = 3 }, "3 completions of 2 jobs"},
		"two workers were told so": {
			func(e *evidence) { e.claims[2].Outcome = outcomeCompleted }, "the workers say [13 12]",
		},
		"nobody was told so":  {func(e *evidence) { e.claims = e.claims[1:] }, "job j1 was completed under token 11, the workers say []"},
		"under another token": {func(e *evidence) { e.jobs[0].Token = 10 }, "under token 10, the workers say [11]"},
		"held twice at once":  {func(e *evidence) { e.claims[1].StartedAt = 299 }, "job j2 was held twice at once"},
		"token given twice":   {func(e *evidence) { e.claims[2].Token = 13 }, "job j2 was held twice at once"},
	} {
		e := flawless()
		c.spoil(e)
		if err := e.check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestManyFlawsAreCut(t *testing.T) {
	e := flawless()
	for range 50 {
		e.jobs = append(e.jobs, v1.Job{ID: "j9"})
	}
	err := e.check()
	if err == nil || strings.Count(err.Error(), "\n") != shownFaults || !strings.Contains(err.Error(), "differences more") {
		t.Errorf("%v", err)
	}
}

func TestParseCount(t *testing.T) {
	if path, n, err := parseCount("   42 /with space.go"); path != "/with space.go" || n != 42 || err != nil {
		t.Errorf("%q %d %v", path, n, err)
	}
	for _, line := range []string{"", "42", "x /a.go"} {
		if _, _, err := parseCount(line); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}
