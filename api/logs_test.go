package api

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/api/core"
	"osqueue/api/livelog"
	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
)

// follow reads the log of a job after the position of the answer before.
func (g *rig) follow(id string, after v1.JobLogs, waitMs int, header ...string) answer {
	g.t.Helper()
	return g.do("GET", fmt.Sprintf("/v1/jobs/%s/logs?token=%d&offset=%d&waitMs=%d", id, after.Token, after.Offset, waitMs), "", header...)
}

// wrote sends what an attempt has written.
func (g *rig) wrote(worker, id string, token uint64, offset int, text string, header ...string) answer {
	g.t.Helper()
	body := fmt.Sprintf(`{"workerId":%q,"jobs":[{"jobId":%q,"token":%d,"offset":%d,"text":%q}]}`, worker, id, token, offset, text)
	return g.do("POST", v1.PathLogs, body, header...)
}

// textsOf returns the texts of an answer.
func textsOf(l v1.JobLogs) string {
	var b strings.Builder
	for _, c := range l.Chunks {
		b.WriteString(c.Text)
	}
	return b.String()
}

// Neither side waits longer than it must.
func TestLiveLogsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.submit("a", "t")
		j := g.claim1()
		worker := g.later("POST", v1.PathLogs, `{"workerId":"w","waitMs":60000}`)
		synctest.Wait()
		reader := make(chan answer, 1)
		start := time.Now()
		go func() { reader <- g.follow("a", v1.JobLogs{}, 60000) }()
		if out := ok[v1.LogsWanted](t, <-worker); len(out.Jobs) != 1 {
			t.Fatalf("wanted %+v", out)
		}
		ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, "x"))
		if got := ok[v1.JobLogs](t, <-reader); textsOf(got) != "x" || time.Since(start) != 0 {
			t.Fatalf("got %+v after %v", got, time.Since(start))
		}
		ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{Token: j.Token, Offset: 1}, 2000))
		if d := time.Since(start); d != 2*time.Second {
			t.Errorf("a read in vain took %v", d)
		}
		time.Sleep(livelog.DefaultConfig().Forget)
		if out := ok[v1.LogsWanted](t, g.do("POST", v1.PathLogs, `{"workerId":"w","waitMs":3000}`)); len(out.Jobs) != 0 {
			t.Errorf("wanted %+v although nobody follows any more", out)
		}
		// The node is deposed while both wait.
		go func() { reader <- g.follow("a", v1.JobLogs{Token: j.Token, Offset: 1}, 60000) }()
		synctest.Wait()
		g.node.set(func(f *fakeNode) { f.lead, f.leader = false, "10.0.0.9:8080" })
		start = time.Now()
		refused(t, <-reader, http.StatusServiceUnavailable, v1.TagNotLeader)
		if d := time.Since(start); d > 500*time.Millisecond {
			t.Errorf("a deposed node held the reader for %v", d)
		}
	})
}

func TestLiveLogsRefusals(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	g.s.Shares.Waits = limit.NewSlots(0, 0)
	refused(t, g.do("GET", "/v1/jobs/a/logs", ""), http.StatusServiceUnavailable, v1.TagOverloaded)
	g.claim1()
	refused(t, g.do("POST", v1.PathLogs, `{"workerId":"w","waitMs":10}`), http.StatusServiceUnavailable, v1.TagOverloaded)
	g = newRig(t)
	g.submit("a", "t")
	g.s.Logs = livelog.New(livelog.Config{Forget: time.Second})
	refused(t, g.do("GET", "/v1/jobs/a/logs", ""), http.StatusServiceUnavailable, v1.TagOverloaded)
}

// A job that gets the id of a removed one has a log of its own: the reader of neither sees that of
// the other.
func TestLiveLogsOfAnIDThatIsUsedAgain(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	g.s.Config.Timeouts.Wait = time.Minute
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	mail := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"mail"}})
	film := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"film"}})
	run := func(jobType, text string, watch []string) {
		t.Helper()
		ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"j","type":"`+jobType+`"}`, admin...))
		job := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["`+jobType+`"]}`, admin...))
		if got := ok[v1.JobLogs](t, g.follow("j", v1.JobLogs{}, 0, watch...)); textsOf(got) != "" {
			t.Errorf("a reader of %s sees %q", jobType, textsOf(got))
		}
		ok[v1.LogsWanted](t, g.wrote("w", "j", job.Token, 0, text, admin...))
		if got := ok[v1.JobLogs](t, g.follow("j", v1.JobLogs{}, 0, watch...)); textsOf(got) != text {
			t.Errorf("a reader of %s sees %q, want %q", jobType, textsOf(got), text)
		}
	}
	run("mail", "of the mail", mail)
	waiting := make(chan answer)
	last := ok[v1.JobLogs](t, g.follow("j", v1.JobLogs{}, 0, mail...))
	go func() { waiting <- g.follow("j", last, 60_000, mail...) }()
	for g.s.Shares.Waits.Taken() == 0 {
		select {
		case a := <-waiting:
			t.Fatalf("the reader does not wait: %d %s", a.status, a.body)
		case <-time.After(time.Millisecond):
		}
	}
	g.node.tick(time.Millisecond)
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/j/force-complete", "{}", admin...))
	ok[v1.Reported](t, g.do("DELETE", "/v1/jobs/j", "", admin...))
	run("film", "of the film", film)
	if a := <-waiting; strings.Contains(string(a.body), "of the film") {
		t.Errorf("the reader that waited for the mail: %d %s", a.status, a.body)
	}
}

// A client that follows its share of the jobs is refused, and others are not.
func TestSharesOfReaders(t *testing.T) {
	g := newRig(t)
	cfg := livelog.DefaultConfig()
	cfg.Jobs = 2
	g.s.Logs = livelog.New(cfg)
	g.submit("a", "t")
	g.submit("b", "t")
	ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 0))
	over := g.follow("b", v1.JobLogs{}, 0)
	refused(t, over, http.StatusTooManyRequests, v1.TagRateLimited)
	if text := string(over.body); !strings.Contains(text, "the logs of 1 running jobs") {
		t.Errorf("answered %s", text)
	}
	ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 0))
	other := []string{v1.HeaderForwarded, "n2", "X-Forwarded-For", "192.0.2.7"}
	ok[v1.JobLogs](t, g.follow("b", v1.JobLogs{}, 0, other...))
	refused(t, g.follow("a", v1.JobLogs{}, 0, other...), http.StatusTooManyRequests, v1.TagRateLimited)
}
