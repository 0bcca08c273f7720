package queue

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// Flags become these requests on the wire. ID stands for an id that the command makes.
func TestFlagsOnTheWire(t *testing.T) {
	q := clitest.NewFake(t)
	for line, want := range map[string]request{
		"submit a 1 --id x --backoff exponential:1s:1h:20% --job-timeout 90s --group g --tag t --tag u --unique k:v:period:1d --after p --after q --after-failure run --batch b": {
			"POST /v1/jobs",
			`{"id":"x","type":"a","backoff":{"kind":"exponential","baseMs":1000,"capMs":3600000,"jitter":20},"timeoutMs":90000,"group":"g","tags":["t","u"],"uniqueKey":"k:v","uniqueScope":"period","uniqueMs":86400000,"after":["p","q"],"afterFailure":"run","batchId":"b","payload":1}`,
		},
		"submit a --id x --run-at 2026-12-24T18:00:00Z --lease 2s --max-attempts 9 --priority -4": {
			"POST /v1/jobs", `{"id":"x","type":"a","priority":-4,"runAt":1798135200000,"maxAttempts":9,"leaseMs":2000}`,
		},
		"submit a --id x --delay 1500ms --unique k": {"POST /v1/jobs", `{"id":"x","type":"a","delayMs":1500,"uniqueKey":"k"}`},
		"queue set mail --max-running 5 --max-running-per-group 2 --rate 600/m --burst 20 --lease 1m --job-timeout 2m --max-attempts 10 --backoff none --retain 7d --retain-count 0 --max-jobs 9 --max-bytes 1GiB --max-payload 64KiB": {
			"PATCH /v1/queues/mail",
			`{"maxRunning":5,"maxRunningPerGroup":2,"ratePerSecond":10,"burst":20,"leaseMs":60000,"timeoutMs":120000,"maxAttempts":10,"backoff":{"kind":"none"},"retainMs":604800000,"retainCount":0,"maxJobs":9,"maxBytes":1073741824,"maxPayload":65536}`,
		},
		"queue set mail --rate default --backoff default --max-bytes default": {"PATCH /v1/queues/mail", `{"ratePerSecond":null,"backoff":null,"maxBytes":null}`},
		"queue pause mail":          {"POST /v1/queues/mail/pause", ""},
		"queue resume a/b":          {"POST /v1/queues/a%2Fb/resume", ""},
		"queue reset mail":          {"DELETE /v1/queues/mail", ""},
		"cron rm nightly":           {"DELETE /v1/crons/nightly", ""},
		"cron pause n":              {"POST /v1/crons/n/pause", ""},
		"cron resume n":             {"POST /v1/crons/n/resume", ""},
		"cron trigger n":            {"POST /v1/crons/n/trigger", ""},
		"cron put n @daily --type=": {"PUT /v1/crons/n", `{"spec":"@daily","job":{}}`},
		"cron put n @hourly --tz Europe/Berlin --overlap skip --missed one --paused --type a --payload [1] --tag t --job-timeout 9s": {
			"PUT /v1/crons/n",
			`{"spec":"@hourly","timeZone":"Europe/Berlin","overlap":"skip","missed":"one","paused":true,"job":{"type":"a","timeoutMs":9000,"tags":["t"],"payload":[1]}}`,
		},
		"batch create --id b": {"POST /v1/batches", `{"id":"b","jobs":[]}`},
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		if seen := writes(q); got.Code != view.ExitOK || !slices.Equal(seen, []request{want}) {
			t.Errorf("%s: %+v\ngot  %v\nwant %v", line, got, seen, want)
		}
	}
}

func TestSubmitWithAHeldKey(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "", "submit", "a", "--unique", "held")
	if got.Code != view.ExitOK || got.Out != "holder\n" || !strings.Contains(got.Err, "nothing was added: job holder holds the unique key") {
		t.Errorf("%+v", got)
	}
}

// The same key makes the same ids, those of a file too, however many batches it
// takes.
func TestSubmitWithAnIdempotencyKey(t *testing.T) {
	q := clitest.NewFake(t)
	first := osq.Run(t, q, "", "submit", "a", "1", "--idempotency-key", "k")
	if again := osq.Run(t, q, "", "submit", "a", "1", "--idempotency-key", "k"); again.Out != first.Out || len(q.All()) != 1 {
		t.Errorf("%+v, %+v", first, again)
	}
	q = clitest.NewFake(t)
	for range 2 {
		if got := osq.Run(t, q, numbered(2345), "submit", "a", "--file", "-", "--idempotency-key", "k"); got.Code != view.ExitOK || len(q.All()) != 2345 {
			t.Fatalf("%d jobs, %s", len(q.All()), got.Err)
		}
	}
}

// All members of a line's job arrive, and beat the flags.
func TestSubmitFileOfWholeJobs(t *testing.T) {
	q := clitest.NewFake(t)
	line := `{"id":"x","type":"a","backoff":{"kind":"fixed","baseMs":5},"timeoutMs":7,"group":"g","tags":["t"],"uniqueKey":"k","uniqueScope":"waiting","after":["p"],"afterFailure":"cancel","batchId":"b"}`
	got := osq.Run(t, q, line, strings.Fields("submit --file - --job-timeout 1w --group h --tag u --backoff none --after z --batch y")...)
	if seen := q.Writes(); got.Code != view.ExitOK || len(seen) != 1 || seen[0].Body != `{"jobs":[`+line+`]}` {
		t.Errorf("%+v\n%v", got, seen)
	}
}

func TestBatchCreate(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "one\ntwo\n", strings.Fields(`batch create - --id b --type a --text --callback-type done --callback-payload {"x":1} --callback-on completed --tag t`)...)
	seen := q.Writes()
	if got.Code != view.ExitOK || got.Out != "b1\n" || len(seen) != 1 {
		t.Fatalf("%+v, %v", got, seen)
	}
	for _, part := range []string{
		`"id":"b"`, `{"id":"b-1","type":"a","tags":["t"],"payload":"one"},{"id":"b-2","type":"a","tags":["t"],"payload":"two"}`,
		`"type":"done","payload":{"x":1}`, `"callbackOn":"completed"`,
	} {
		if !strings.Contains(seen[0].Body, part) {
			t.Errorf("%s is missing: %s", part, seen[0].Body)
		}
	}
	got = osq.Run(t, q, numbered(1001), "batch", "create", "-", "--type", "a")
	if got.Code != view.ExitFailure || !strings.Contains(got.Err, "submit --batch") || len(q.Writes()) != 0 {
		t.Errorf("%+v", got)
	}
	if got = osq.Run(t, q, "1\nx\n", "batch", "create", "-", "--type", "a"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "line 2") {
		t.Errorf("%+v", got)
	}
}

func TestListsAndShows(t *testing.T) {
	q := clitest.NewFake(t)
	next := time.UnixMilli(1_700_000_000_000).Format("2006-01-02 15:04:05 MST")
	for line, want := range map[string][]string{
		"queue ls -o wide":           {"TYPE", "mail  3 ", "2KiB", "paused, 5 running, 10/s"},
		"queue show mail":            {"paused        yes", "max-attempts  2", "retain        2ms", "backoff       fixed:1s"},
		"queue pause mail":           {"mail  paused; 3 available"},
		"queue reset mail":           {"mail  reset"},
		"cron ls -o wide":            {"nightly  0 3 * * *  Europe/Berlin  report  " + next, "idle     @daily     UTC", "paused"},
		"cron show nightly":          {"zone          Europe/Berlin", "next          " + next, "last error    job j has not ended", "unique        n", "overlap       allow"},
		"cron put n @daily --type a": {"n  replaced; next: " + next},
		"cron trigger n":             {"fired\n"},
		"batch ls -o wide":           {"b1  open   3     1        1          1     0          waits", "b2  ended"},
		"batch show b1":              {"callback   cb, when all are ended (waits)"},
		"stats -o wide":              {"-      0          0        0          2", "(all)  3", "1MiB", "in all: 99 completed, 0 dead, 0 cancelled; 1 worker\n"},
	} {
		got := osq.Run(t, q, "", strings.Fields(line)...)
		for _, text := range want {
			if got.Code != view.ExitOK || !strings.Contains(got.Out, text) {
				t.Errorf("%s: %q is missing: %+v\n%s", line, text, got, got.Out)
			}
		}
	}
	for line, want := range map[string]string{
		"queue ls": `{"type":"mail",`, "cron ls": `{"name":"nightly",`, "batch ls": `{"id":"b1",`,
		"stats": `{"total":0,`, "queue set mail --burst 2": `{"type":"mail"`, "cron rm x": `{"done":"removed","name":"x"}`,
		"cron put n @daily --type a": `{"nextAt":1700000000000,`, "batch create": `{"batchId":"b1"`,
	} {
		if got := osq.Run(t, q, "", append(strings.Fields(line), "--json")...); got.Code != view.ExitOK || !strings.HasPrefix(got.Out, want) {
			t.Errorf("%s: %+v", line, got)
		}
	}
}

func TestEvents(t *testing.T) {
	q := clitest.NewFake(t)
	got := osq.Run(t, q, "", strings.Fields("events --since start --type mail --kind job.claimed,cron.fired --job j1 --limit 4")...)
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	if got.Code != view.ExitOK || len(lines) != 4 {
		t.Fatalf("%+v", got)
	}
	for i, want := range []string{
		"cron.fired         nightly  job=j1&kind=job.claimed%2Ccron.fired&type=mail after 0-0.0",
		"job.claimed        j1  mail  available → running  on w1  attempt 1",
		"job.progress       j1  40%  half way", "gap: events were missed",
	} {
		if !strings.Contains(lines[i], want) {
			t.Errorf("line %d: %s", i, lines[i])
		}
	}
	got = osq.Run(t, q, "", "events", "--json", "--limit", "1", "--since", "3-9.1")
	if !strings.HasPrefix(got.Out, `{"id":"3-17.0","lsn":"","kind":"cron.fired"`) || !strings.Contains(got.Out, "after 3-9.1") {
		t.Errorf("%+v", got)
	}
}

// Ctrl-C is how one stops to follow events: no failure.
func TestEventsUntilCtrlC(t *testing.T) {
	q := clitest.NewFake(t)
	c := osq.Command(t, q.Server.URL)
	ctx, stop := context.WithCancel(c.Ctx)
	c.Ctx = ctx
	go func() {
		for !strings.Contains(c.Out.String(), "gap") && ctx.Err() == nil {
			<-time.After(time.Millisecond)
		}
		stop()
	}()
	if got := c.Run("events"); got.Code != view.ExitOK || got.Err != "" {
		t.Errorf("%+v", got)
	}
}

func TestJobShowsAllThatIsSet(t *testing.T) {
	worker := "w1"
	q := clitest.NewFake(t)
	q.Jobs = append(q.Jobs, &v1.Job{
		ID: "j", Status: v1.StatusInProgress, CancelAt: 1_700_000_000_000, Group: "g", Tags: []string{"t", "u"}, UniqueKey: "k", UniqueScope: v1.UniquePeriod,
		UniqueMs: 60_000, After: []string{"p"}, AfterFailure: v1.AfterRun, WaitsFor: []string{"q"}, BatchID: "b", Cron: "c", TimeoutMs: 90_000,
		Backoff: &v1.Backoff{Kind: "linear", BaseMs: 1000, CapMs: 7_200_000, Jitter: 5}, Progress: &v1.Progress{Percent: 30, Message: "going"},
		History: []v1.Attempt{{Number: 1, StartedAt: 5, EndedAt: 1005, WorkerID: &worker, Error: "oh\n", End: "failed"}},
		Actions: []v1.JobAction{{Kind: v1.EventEnqueued, At: 1_700_000_000_000, Actor: "token p (Ann)"}, {Kind: v1.EventRetried, At: 1_700_000_000_000}},
	})
	got := osq.Run(t, q, "", "job", "show", "j")
	for _, want := range []string{
		"running (cancellation requested at 2023-11-14", "group        g", "tags         t u", "unique       k:period:1m", "after        p (if it fails: run)",
		"waits for    q", "batch        b", "cron         c", "job timeout  1m30s", "backoff      linear:1s:2h:5%", "progress     30% going", "attempt 1    failed after 1s on w1: oh",
		"enqueued     2023-11-14", "by token p (Ann)", "retried      2023-11-14",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if got := osq.Run(t, q, "", "job", "ls"); !strings.Contains(got.Out, "running 30%") {
		t.Errorf("%s", got.Out)
	}
}

// request is a clitest.Request that tables write without the names of its fields.
type request struct{ Line, Body string }

func writes(q *clitest.Fake) []request {
	var all []request
	for _, r := range q.Writes() {
		all = append(all, request(r))
	}
	return all
}
