package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/client"
)

func TestLogKeepsItsEnd(t *testing.T) {
	long := strings.Repeat("x", maxLogText)
	for name, c := range map[string]struct {
		said []string
		want string
	}{
		"nothing":        {nil, ""},
		"lines":          {[]string{"one", "two\nthree"}, "one\ntwo\nthree"},
		"as much":        {[]string{long}, long},
		"more":           {[]string{"gone" + long}, "…" + long[3:]},
		"more, in parts": {[]string{long, long, "end"}, "…" + long[7:] + "\nend"},
		"over and over":  {slices.Repeat([]string{long[:5000]}, 20), "…" + endOf(strings.Repeat("\n"+long[:5000], 20), maxLogText, false)[3:]},
		"within a rune":  {[]string{strings.Repeat("é", maxLogText)}, "…" + strings.Repeat("é", (maxLogText-3)/2)},
		"not UTF-8":      {[]string{"a\xff\xfeb"}, "a\uFFFDb"},
		"no text at all": {[]string{strings.Repeat("\xff", 3*maxLogText)}, "…\uFFFD"},
	} {
		t.Run(name, func(t *testing.T) {
			job := Job{log: new(attemptLog)}
			for _, text := range c.said {
				job.Log(text)
			}
			got := job.log.text()
			if got != c.want || len(got) > maxLogText {
				t.Errorf("%d bytes, from %.20q to %q; want %d", len(got), got, got[max(0, len(got)-20):], len(c.want))
			}
		})
	}
	Job{}.Log("to nobody")
}

func TestLogOfManyGoroutines(t *testing.T) {
	job := Job{log: new(attemptLog)}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() { job.Log(fmt.Sprint("line ", i)) })
	}
	all.Wait()
	if lines := strings.Split(job.log.text(), "\n"); len(lines) != 20 || !slices.Contains(lines, "line 7") {
		t.Errorf("%q", lines)
	}
}

func TestWhatBecomesOfALog(t *testing.T) {
	boom, much := errors.New("boom"), strings.Repeat("x", maxErrorText)
	for name, c := range map[string]struct {
		report       report
		log          string
		want, reason string
	}{
		"completed":           {decide(nil, nil, nil), "said", "said", ""},
		"failed":              {decide(nil, nil, boom), "said", "", "boom: said"},
		"failed silently":     {decide(nil, nil, boom), "", "", "boom"},
		"cancelled":           {decide(ErrCancelled, nil, ErrCancelled), "said", "", "cancelled: said"},
		"given back":          {decide(ErrStopping, nil, boom), "said", "", ""},
		"a long log":          {decide(nil, nil, boom), much, "", "boom: …" + much[len("boom: …"):]},
		"a long error":        {decide(nil, nil, errors.New(much)), "said", "", much},
		"a result of no JSON": {decide(nil, json.RawMessage("{"), nil), "said", "", errNotJSON.Error() + ": said"},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.report.with(c.log)
			if got.log != c.want || got.failure.Error != c.reason {
				t.Errorf("the log is %q and the error %.50q (%d bytes)", got.log, got.failure.Error, len(got.failure.Error))
			}
		})
	}
}

// logQueue records the logs of completions, and may refuse them.
type logQueue struct {
	*fakeQueue
	refuses bool
	logs    chan string
}

func (q logQueue) CompleteBatch(ctx context.Context, worker string, jobs []client.Completion) ([]client.Beat, error) {
	for _, j := range jobs {
		q.logs <- j.Log
		if q.refuses && j.Log != "" {
			return nil, &client.Error{Op: "complete", Status: http.StatusBadRequest, Committed: client.CommittedNo, Message: "log"}
		}
	}
	return q.fakeQueue.CompleteBatch(ctx, worker, jobs)
}

func (q logQueue) CompleteAndClaim(ctx context.Context, jobs []client.Completion, next client.ClaimOptions) ([]client.Beat, []client.ClaimedJob, error) {
	beats, err := q.CompleteBatch(ctx, next.Worker, jobs)
	return beats, nil, err
}

// runLogged runs one job, fails it once, and returns the logs of its completions.
func runLogged(t *testing.T, refuses bool) (q logQueue, logs []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		q = logQueue{newFake(30 * time.Second), refuses, make(chan string, 10)}
		q.add("a", 1)
		b := newBench(t, q.fakeQueue, Config{})
		b.worker.queue = q
		b.worker.HandleAny(func(_ context.Context, job Job) (json.RawMessage, error) {
			job.Log(fmt.Sprint("attempt ", job.Attempt))
			if job.Attempt == 1 {
				return nil, errors.New("boom")
			}
			return json.RawMessage("1"), nil
		})
		b.runFor(time.Minute)
		close(q.logs)
		for l := range q.logs {
			logs = append(logs, l)
		}
	})
	return q, logs
}

// A log is that of its attempt: a failure has it behind its error, and the next
// attempt begins with none.
func TestLogsReachTheCluster(t *testing.T) {
	q, logs := runLogged(t, false)
	if j := q.job(1); j.status != "completed" || j.failure.Error != "boom: attempt 1" || !slices.Equal(logs, []string{"attempt 2"}) {
		t.Errorf("the job is %s after %q, with the logs %q", j.status, j.failure.Error, logs)
	}
}

// A cluster that does not take the log gets the result without it.
func TestALogThatIsRefusedCostsNoResult(t *testing.T) {
	q, logs := runLogged(t, true)
	if j := q.job(1); j.status != "completed" || j.result != "1" || !slices.Equal(logs, []string{"attempt 2", ""}) {
		t.Errorf("the job is %s with %s, and the logs were %q", j.status, j.result, logs)
	}
}
