package queue

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/clitest"
	"osqueue/internal/cli/view"
)

// The shell offers the newest jobs that a command accepts.
func TestCompletionOfJobs(t *testing.T) {
	for line, statuses := range map[string]string{
		"job show":   v1.StatusAll,
		"job cancel": "blocked,scheduled,unclaimed,in_progress",
		"job retry":  "dead,cancelled,scheduled",
		"job rm":     "blocked,scheduled,unclaimed,completed,dead,cancelled",
		"dead retry": v1.StatusDead,
	} {
		q := clitest.NewFake(t)
		for _, id := range []string{"j1", "j2", "other"} {
			q.Add(v1.NewJob{ID: id, Type: "good"})
		}
		for i, status := range []string{v1.StatusUnclaimed, v1.StatusDead, v1.StatusDead} {
			q.Jobs[i].Status = status
		}
		var asked url.Values
		q.Refuse = func(r *http.Request) *v1.Problem {
			asked = r.URL.Query()
			return nil
		}
		got := osqTest(t, q, "", append([]string{"__complete"}, strings.Fields(line+" j")...)...)
		var want string
		for _, j := range q.Jobs[:2] {
			if statuses == v1.StatusAll || strings.Contains(statuses, j.Status) {
				want += j.ID + "\tgood " + v1.StatusWord(j.Status) + "\n"
			}
		}
		if got.Code != view.ExitOK || !strings.HasPrefix(got.Out, want+":") {
			t.Errorf("%s: %+v, want %q", line, got, want)
		}
		if asked.Get(v1.ParamStatus) != statuses || asked.Get(v1.ParamSort) != v1.SortNewest {
			t.Errorf("%s asks for %v", line, asked)
		}
	}
}
