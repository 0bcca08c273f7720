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

func TestLiveLogs(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	j := g.claim1()
	if out := ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, "nobody follows")); len(out.Jobs) != 0 {
		t.Fatalf("wanted %+v", out)
	}
	none := ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 0))
	if none.Status != v1.StatusInProgress || len(none.Chunks) != 0 {
		t.Fatalf("got %+v", none)
	}
	out := ok[v1.LogsWanted](t, g.do("POST", v1.PathLogs, `{"workerId":"w","waitMs":60000}`))
	if len(out.Jobs) != 1 || out.Jobs[0] != (v1.LogWanted{JobID: "a", Token: j.Token}) {
		t.Fatalf("wanted %+v", out)
	}
	out = ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, "one\n"))
	if len(out.Jobs) != 1 || out.Jobs[0].Offset != 4 {
		t.Fatalf("wanted %+v", out)
	}
	ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, "one\n")) // the answer was lost
	got := ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 60000))
	if len(got.Chunks) != 1 || got.Chunks[0] != (v1.LogChunk{Attempt: 1, Token: j.Token, Bytes: 4, Text: "one\n"}) || got.Token != j.Token || got.Offset != 4 {
		t.Fatalf("got %+v", got)
	}
	for name, a := range map[string]answer{
		"another worker": g.wrote("v", "a", j.Token, 4, "forged"),
		"an old token":   g.wrote("w", "a", j.Token-1, 4, "forged"),
		"no such job":    g.wrote("w", "b", j.Token, 4, "forged"),
	} {
		ok[v1.LogsWanted](t, a)
		if next := ok[v1.JobLogs](t, g.follow("a", got, 0)); len(next.Chunks) != 0 {
			t.Errorf("%s added %+v", name, next)
		}
	}
	ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 10, "two\n"))
	ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/complete", fmt.Sprintf(`{"workerId":"w","token":%d}`, j.Token)))
	got = ok[v1.JobLogs](t, g.follow("a", got, 60000))
	if got.Status != v1.StatusCompleted || textsOf(got) != "two\n" || got.Chunks[0].Lost != 6 {
		t.Fatalf("got %+v", got)
	}
	refused(t, g.follow("nope", v1.JobLogs{}, 0), http.StatusNotFound, v1.TagNotFound)
}

// A follower of a job that no worker holds yet sees both of its attempts.
func TestLiveLogsOverAttempts(t *testing.T) {
	g := newRig(t)
	g.submit("a", "t")
	at := ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 0))
	for attempt := int32(1); attempt <= 2; attempt++ {
		j := g.claim1()
		at = ok[v1.JobLogs](t, g.follow("a", at, 0))
		if out := ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, fmt.Sprint("attempt ", attempt))); len(out.Jobs) != 1 {
			t.Fatalf("wanted %+v", out)
		}
		at = ok[v1.JobLogs](t, g.follow("a", at, 0))
		if textsOf(at) != fmt.Sprint("attempt ", attempt) || at.Chunks[0].Attempt != attempt {
			t.Fatalf("got %+v", at)
		}
		ok[v1.Reported](t, g.do("POST", "/v1/jobs/a/fail", fmt.Sprintf(`{"workerId":"w","token":%d,"delayMs":0}`, j.Token)))
	}
}

// Neither side waits longer than it must.
func TestLiveLogsWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newRig(t)
		g.submit("a", "t")
		j := g.claim1()
		worker := make(chan answer, 1)
		go func() { worker <- g.do("POST", v1.PathLogs, `{"workerId":"w","waitMs":60000}`) }()
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
	for body, want := range map[string]string{
		`{}`:                           "workerId",
		`{"workerId":"w","waitMs":-1}`: "waitMs",
		`{"workerId":"w","jobs":[{"token":1,"text":"x"}]}`:                                              "jobId",
		`{"workerId":"w","jobs":[{"jobId":"a","token":1,"offset":-1,"text":"x"}]}`:                      "offset",
		`{"workerId":"w","jobs":[{"jobId":"a","token":1,"bytes":99999,"text":"x"}]}`:                    "bytes",
		`{"workerId":"w","jobs":[{"jobId":"a","token":1,"text":"` + strings.Repeat("x", 25000) + `"}]}`: "text",
		`{"workerId":"w","nope":1}`: "nope",
	} {
		if a := g.do("POST", v1.PathLogs, body); a.status != http.StatusBadRequest || !strings.Contains(string(a.body), want) {
			t.Errorf("%.60s: %d %s", body, a.status, a.body)
		}
	}
	for _, query := range []string{"token=x", "token=-1", "offset=-1", "offset=x", "waitMs=x"} {
		refused(t, g.do("GET", "/v1/jobs/a/logs?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
	g.s.Shares.Waits = limit.NewSlots(0, 0)
	refused(t, g.do("GET", "/v1/jobs/a/logs", ""), http.StatusServiceUnavailable, v1.TagOverloaded)
	g.claim1()
	refused(t, g.do("POST", v1.PathLogs, `{"workerId":"w","waitMs":10}`), http.StatusServiceUnavailable, v1.TagOverloaded)
	g = newRig(t)
	g.submit("a", "t")
	g.s.Logs = livelog.New(livelog.Config{Forget: time.Second})
	refused(t, g.do("GET", "/v1/jobs/a/logs", ""), http.StatusServiceUnavailable, v1.TagOverloaded)
}

// Only a token that may read the type sees lines, and only the owner of the claim adds some.
func TestLiveLogsInAScope(t *testing.T) {
	g := secured(t, core.SecurityOn, nil)
	admin := g.give(&fsmpb.Token{Role: uint32(fsm.RoleAdmin)})
	mail := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"mail"}})
	film := g.give(&fsmpb.Token{Role: uint32(fsm.RoleReader), Types: []string{"film"}})
	producer := g.give(&fsmpb.Token{Role: uint32(fsm.RoleProducer)})
	owner := g.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker), Types: []string{"mail"}})
	thief := g.give(&fsmpb.Token{Role: uint32(fsm.RoleWorker)})
	g.do("POST", "/v1/jobs", `{"id":"j","type":"mail"}`, admin...)
	job := ok[v1.ClaimedJob](t, g.do("POST", "/v1/jobs/claim", `{"workerId":"w","types":["mail"]}`, owner...))
	if job.JobID != "j" {
		t.Fatalf("claimed %+v", job)
	}
	ok[v1.JobLogs](t, g.follow("j", v1.JobLogs{}, 0, mail...))
	refused(t, g.follow("j", v1.JobLogs{}, 0, film...), http.StatusNotFound, v1.TagNotFound)
	for name, head := range map[string][]string{"a producer": producer, "the worker": owner} {
		if a := g.follow("j", v1.JobLogs{}, 0, head...); a.status != http.StatusForbidden {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	if out := ok[v1.LogsWanted](t, g.wrote("w", "j", job.Token, 0, "forged", thief...)); len(out.Jobs) != 0 {
		t.Errorf("another worker learns %+v", out)
	}
	if out := ok[v1.LogsWanted](t, g.wrote("w", "j", job.Token, 0, "true", owner...)); len(out.Jobs) != 1 {
		t.Errorf("the owner learns %+v", out)
	}
	if got := ok[v1.JobLogs](t, g.follow("j", v1.JobLogs{}, 0, mail...)); textsOf(got) != "true" {
		t.Errorf("got %+v", got)
	}
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

// Both sides reach the leader through another node.
func TestLiveLogsThroughAFollower(t *testing.T) {
	p := newPair(t)
	g := p.follower
	ok[v1.Enqueued](t, g.do("POST", "/v1/jobs", `{"id":"a","type":"t"}`))
	j := g.claim1()
	ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 0))
	ok[v1.LogsWanted](t, g.wrote("w", "a", j.Token, 0, "x"))
	if got := ok[v1.JobLogs](t, g.follow("a", v1.JobLogs{}, 1000)); textsOf(got) != "x" {
		t.Errorf("got %+v", got)
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
