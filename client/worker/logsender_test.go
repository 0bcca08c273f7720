package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"

	"osqueue/client"
)

// liveQueue is a fakeQueue that takes live logs, as the leader does.
type liveQueue struct {
	*fakeQueue
	mu       sync.Mutex
	followed bool
	changed  chan struct{}
	got      map[string]string // by job, with <n> for lost bytes
	ends     map[string]int64
	calls    int
	err      error
}

func newLive(lease time.Duration) *liveQueue {
	return &liveQueue{fakeQueue: newFake(lease), changed: make(chan struct{}), got: make(map[string]string), ends: make(map[string]int64)}
}

func (q *liveQueue) follow(on bool, err error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.followed, q.err = on, err
	close(q.changed)
	q.changed = make(chan struct{})
}

func (q *liveQueue) count() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.calls
}

func (q *liveQueue) SendLogs(ctx context.Context, worker string, parts []client.LogPart, wait time.Duration) ([]client.WantedLog, error) {
	q.mu.Lock()
	q.calls++
	changed, followed, err := q.changed, q.followed, q.err
	q.mu.Unlock()
	if err != nil {
		return nil, err
	}
	if !followed && len(parts) == 0 {
		select {
		case <-changed:
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, p := range parts {
		q.addLocked(p)
	}
	if !q.followed {
		return nil, nil
	}
	return q.wantedLocked(worker), nil
}

func (q *liveQueue) addLocked(p client.LogPart) {
	key := fmt.Sprint(p.Lease.JobID, "/", p.Lease.Token)
	end := q.ends[key]
	if lost := p.Offset - end; lost > 0 {
		q.got[p.Lease.JobID] += fmt.Sprintf("<%d>", lost)
	} else if -lost >= int64(len(p.Text)) {
		return
	} else {
		p.Text = p.Text[-lost:]
	}
	q.got[p.Lease.JobID] += p.Text
	q.ends[key] = p.Offset + int64(len(p.Text))
}

func (q *liveQueue) wantedLocked(worker string) (out []client.WantedLog) {
	q.fakeQueue.mu.Lock()
	defer q.fakeQueue.mu.Unlock()
	for _, j := range q.jobs {
		if j.status == "in_progress" && j.worker == worker {
			out = append(out, client.WantedLog{JobID: j.id, Token: j.token, Offset: q.ends[fmt.Sprint(j.id, "/", j.token)]})
		}
	}
	return out
}

func (q *liveQueue) said(id string) string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.got[id]
}

// Lines arrive soon while a reader follows, the last ones before the report, and nothing is
// sent while none does.
func TestLinesAreSentWhileSomebodyFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLive(30 * time.Second)
		q.add("a", 1)
		b := newBench(t, q.fakeQueue, Config{})
		b.worker.queue = q
		b.worker.HandleAny(func(_ context.Context, job Job) (json.RawMessage, error) {
			for i := range 30 {
				job.Log(fmt.Sprint(i))
				time.Sleep(time.Second)
			}
			job.Log("end")
			return nil, nil
		})
		b.start()
		time.Sleep(10500 * time.Millisecond)
		if n := q.count(); n != 1 || q.said("j1") != "" {
			t.Errorf("%d calls and %q although nobody follows", n, q.said("j1"))
		}
		q.follow(true, nil)
		time.Sleep(time.Second)
		if want := "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n11\n"; q.said("j1") != want {
			t.Errorf("%q after a second", q.said("j1"))
		}
		q.follow(true, unreachable())
		time.Sleep(5 * time.Second)
		q.follow(true, nil)
		time.Sleep(1500 * time.Millisecond)
		if !strings.HasSuffix(q.said("j1"), "16\n17\n") {
			t.Errorf("%q after a failover", q.said("j1"))
		}
		before := q.count()
		time.Sleep(5 * time.Second)
		if n := q.count() - before; n > 26 {
			t.Errorf("%d calls in 5 s", n)
		}
		time.Sleep(time.Minute)
		if said := q.said("j1"); !strings.HasSuffix(said, "28\n29\nend\n") || strings.Contains(said, "<") {
			t.Errorf("%q at the end", said)
		}
		if j := q.job(1); j.status != "completed" {
			t.Errorf("the job is %s", j.status)
		}
		before = q.count()
		time.Sleep(time.Hour)
		if n := q.count() - before; n > 1 {
			t.Errorf("%d calls without a job", n)
		}
		b.mustFinish()
	})
}

// A job that writes faster than it may send loses its oldest bytes, also while the cluster refuses
// the calls.
func TestLiveLogsOfAFastJob(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newLive(30 * time.Second)
		q.follow(true, &client.Error{Op: "logs", Status: http.StatusNotFound, Tag: "no_route", Committed: client.CommittedNo})
		q.add("a", 1)
		b := newBench(t, q.fakeQueue, Config{})
		b.worker.queue = q
		line := strings.Repeat("x", 999)
		b.worker.HandleAny(func(_ context.Context, job Job) (json.RawMessage, error) {
			for range 200 {
				for range 10 {
					job.Log(line)
				}
				time.Sleep(time.Second)
			}
			return nil, errors.New("boom")
		})
		b.start()
		time.Sleep(100 * time.Second)
		q.follow(true, nil)
		time.Sleep(10 * time.Minute)
		said := q.said("j1")
		var lost, rest int
		if _, err := fmt.Sscanf(said, "<%d>", &lost); err != nil {
			t.Fatalf("%.80q", said)
		}
		rest = len(said) - strings.Index(said, ">") - 1
		if lost+rest < 200*10*1000 {
			t.Errorf("%d bytes lost and %d sent, of %d", lost, rest, 200*10*1000)
		}
		b.mustFinish()
	})
}

func TestLogWriter(t *testing.T) {
	job := Job{log: new(attemptLog)}
	w := job.LogWriter()
	for _, part := range []string{"on", "e\ntw", "\xc3", "\xa9", "\xe2\x82", "\n", "last"} {
		if n, err := io.WriteString(w, part); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	job.Log("a line")
	if got := job.log.text(); got != "one\ntwé\uFFFD\nlast\na line" {
		t.Errorf("%q", got)
	}
	if _, got := job.log.since(0, 1<<20); got != "one\ntwé\uFFFD\nlast\na line\n" {
		t.Errorf("%q", got)
	}
	job.SetLog("stored")
	if got := job.log.text(); got != "stored" {
		t.Errorf("%q", got)
	}
	Job{}.SetLog("to nobody")
	if n, err := (Job{}).LogWriter().Write([]byte("x")); n != 1 || err != nil {
		t.Error(n, err)
	}
}

// Offsets count all bytes that are written: parts read in any sizes join, or skip what is
// gone, and each is valid UTF-8.
func TestPartsOfALogJoin(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		l := new(attemptLog)
		var at int64
		rt.Repeat(map[string]func(*rapid.T){
			"write": func(rt *rapid.T) {
				_, _ = l.Write(rapid.SliceOfN(rapid.SampledFrom([]byte("ab\n\xc3\xa9\xe2\x82\xac\xff")), 0, 40000).Draw(rt, "bytes"))
			},
			"log": func(rt *rapid.T) {
				l.add(strings.Repeat(rapid.SampledFrom([]string{"a", "é", "€\n", "\xff"}).Draw(rt, "text"), rapid.IntRange(0, 20000).Draw(rt, "times")))
			},
			"read": func(rt *rapid.T) {
				from, text := l.since(at, rapid.IntRange(4, 40000).Draw(rt, "limit"))
				if from < at || !utf8.ValidString(text) || strings.Contains(text, "?") {
					rt.Fatalf("%.40q at %d, want it from %d", text, from, at)
				}
				if text == "" && from < l.written {
					rt.Fatalf("nothing at %d of %d", from, l.written)
				}
				at = from + int64(len(text))
			},
			"": func(rt *rapid.T) {
				if len(l.buf) > 2*maxLogText+1 || len(l.partial) >= utf8.UTFMax || at > l.written {
					rt.Fatalf("%d and %d bytes are kept", len(l.buf), len(l.partial))
				}
			},
		})
	})
}
