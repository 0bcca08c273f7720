package ui

import (
	"slices"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// The timeline names who enqueued, cancelled and retried a job, in the order of time.
func TestTimelineNamesActors(t *testing.T) {
	j := &v1.Job{
		Status: v1.StatusCancelled, CreatedAt: 10, FinishedAt: 40,
		History: []v1.Attempt{{Number: 1, StartedAt: 11, EndedAt: 20, End: "failed"}},
		Actions: []v1.JobAction{
			{Kind: v1.EventEnqueued, At: 10, Actor: "token p"},
			{Kind: v1.EventRetried, At: 15},
			{Kind: v1.EventCancelled, At: 30, Actor: "token o"},
			{Kind: v1.EventCancelled, At: 40, Actor: "token q (Ann)"},
		},
	}
	var got []string
	for _, s := range timeline(j) {
		got = append(got, s.Title)
	}
	want := []string{"Enqueued by token p", "Retried", "Attempt 1 failed", "Cancelled by token o", "Cancelled by token q (Ann)"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// A copy of a job has its lease, and not the one that a claim has given to a running job.
func TestCopyHasTheLease(t *testing.T) {
	for status, want := range map[string]int64{v1.StatusDead: 5000, v1.StatusInProgress: 0} {
		if n := copyOf(&v1.Job{Status: status, LeaseMs: 5000}); n.LeaseMs != want {
			t.Errorf("a copy of a %s job has the lease %d", status, n.LeaseMs)
		}
	}
}

// The page of a job says what it still waits for, and after which jobs it came when it does not wait.
func TestWhatAJobWaitsFor(t *testing.T) {
	for waits, want := range map[string]string{
		"b":       `<p>Waits for <a class="mono" href="jobs/b">b</a></p>`,
		"batch:b": `<p>Waits for batch <a class="mono" href="batches/b">b</a></p>`,
		"":        `<dt>After</dt><dd><a class="mono" href="jobs/a">a</a>, <a class="mono" href="jobs/b">b</a></dd>`,
	} {
		j := v1.Job{ID: "j", Status: v1.StatusCompleted, After: []string{"a", "b"}}
		if waits != "" {
			j.Status, j.WaitsFor = v1.StatusBlocked, []string{waits}
		}
		if page := show(&recorder{answers: map[string]any{v1.PathJobs + "/j": j}}, "/jobs/j").Body.String(); !strings.Contains(page, want) {
			t.Errorf("waits for %q: %s", waits, page)
		}
	}
}

// The page of a job says how long it waits for a signal.
func TestHowLongAJobAwaits(t *testing.T) {
	j := v1.Job{ID: "j", Status: v1.StatusScheduled, Awaits: "<go>", RunAt: time.Now().Add(2*time.Hour + 30*time.Second).UnixMilli()}
	page := show(&recorder{answers: map[string]any{v1.PathJobs + "/j": j}}, "/jobs/j").Body.String()
	if !strings.Contains(page, "the signal <code>&lt;go&gt;</code> until <time") || !strings.Contains(page, ", in 2 h.</p>") || !strings.Contains(page, `value="&lt;go&gt;"`) {
		t.Errorf("%s", page)
	}
}

// The page of a job shows its limits, and the one that has no room for it; its copy has them, too.
func TestLimitsOfAJob(t *testing.T) {
	for waits, want := range map[string]bool{"api:<x>": true, "": false} {
		j := v1.Job{ID: "j", Status: v1.StatusUnclaimed, Limits: []string{"api:<x>", "customer:7"}, WaitsForLimit: waits}
		page := show(&recorder{answers: map[string]any{v1.PathJobs + "/j": j}}, "/jobs/j").Body.String()
		if strings.Contains(page, "room under the limit <code>api:&lt;x&gt;</code>") != want || !strings.Contains(page, "<dd><code>api:&lt;x&gt;</code> <code>customer:7</code> </dd>") {
			t.Errorf("waits for %q: %s", waits, page)
		}
		if n := copyOf(&j); !slices.Equal(n.Limits, j.Limits) {
			t.Errorf("a copy has the limits %q", n.Limits)
		}
	}
}

// A job may have the id of another page.
func TestJobNamedLikeAPage(t *testing.T) {
	a := &recorder{answers: map[string]any{v1.PathJobs + "/bulk": v1.Job{ID: "bulk"}}}
	if page := show(a, "/jobs/bulk").Body.String(); !strings.Contains(page, "<title>Job bulk") {
		t.Errorf("%s", page)
	}
}
