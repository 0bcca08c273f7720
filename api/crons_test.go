package api

import (
	"net/http"
	"testing"

	v1 "osqueue/client/api/v1"
)

// A schedule that fires between the computation of its next time and the write of a PUT or a
// resume gets a later time; only if it does so each time does the client have to repeat the
// request.
func TestCronThatFiresDuringAWrite(t *testing.T) {
	g := newRig(t)
	times := 0
	fireFirst := func(n int) {
		times = n
		g.node.overtake = func() {
			if times--; times >= 0 {
				g.node.now = g.node.View().Cron("c").NextAt
				g.fire("c")
			}
		}
	}
	put := func(spec string) string { return `{"spec":"` + spec + `","job":{}}` }
	ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put("* * * * *")))
	for i, spec := range []string{"*/1 * * * *", "0-59 * * * *"} {
		fireFirst(1 + i)
		before := g.cron("c").NextAt
		got := ok[v1.CronPut](t, g.do("PUT", "/v1/crons/c", put(spec)))
		if want := before + int64(1+i)*60_000; got.NextAt != want || g.cron("c").Spec != spec {
			t.Errorf("%s: the next time is %d, want %d; %+v", spec, got.NextAt, want, g.cron("c"))
		}
	}
	fireFirst(3)
	refused(t, g.do("PUT", "/v1/crons/c", put("* * * * *")), http.StatusServiceUnavailable, v1.TagOverloaded)
}
