package ui

import (
	"slices"
	"testing"

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
