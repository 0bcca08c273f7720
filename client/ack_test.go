package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "osqueue/client/api/v1"
)

// asked is the query and the header Prefer of the last request.
func (c *fakeCluster) asked() (query, prefer string) {
	all := c.requests()
	_, query, _ = strings.Cut(all[len(all)-1], "?")
	return query, c.header("Prefer")
}

func (c *fakeCluster) say(level string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.level = level
}

// Writes name their ack level and how long the server may wait, also if
// the server chooses the level. Claims and heartbeats name one only if the caller
// asks for it.
func TestWritesAskForAcks(t *testing.T) {
	const strict = v1.PreferStrict
	for _, tc := range []struct {
		config Ack
		call   Ack // of the context; "-": none
		query  string
		prefer string
		life   string // the query of a heartbeat
		lives  string // its Prefer
	}{
		{AckDefault, "-", "", strict + ", wait=1", "", strict + ", wait=0"},
		{AckQuorum, "-", "ack=quorum", strict, "", strict + ", wait=0"},
		{AckObject, "-", "ack=object&ackWaitMs=3000", strict, "", strict + ", wait=0"},
		{AckObject, AckQuorum, "ack=quorum", strict, "ack=quorum", strict},
		{AckDefault, AckObject, "ack=object&ackWaitMs=3000", strict, "ack=object&ackWaitMs=3000", strict},
		{AckObject, AckDefault, "", strict + ", wait=1", "", strict + ", wait=1"},
	} {
		t.Run(fmt.Sprint(tc.config, tc.call), func(t *testing.T) {
			c := newCluster(t)
			c.answers[v1.PathHeartbeat] = `{"results":[{"jobId":"j","status":"ok"}],"lsn":"1-1"}`
			cl := c.client(func(cfg *Config) { cfg.Ack, cfg.AckWait = tc.config, 3*time.Second })
			ctx := bounded(t)
			if tc.call != "-" {
				ctx = WithAck(ctx, tc.call)
			}
			if _, err := cl.Enqueue(ctx, NewJob{}); err != nil {
				t.Fatal(err)
			}
			if query, prefer := c.asked(); query != tc.query || prefer != tc.prefer {
				t.Errorf("asked %q, Prefer %q", query, prefer)
			}
			for name, call := range map[string]func() error{
				"claim":     func() error { _, err := cl.Claim(ctx, ClaimOptions{Worker: "w"}); return err },
				"heartbeat": func() error { _, err := cl.Heartbeat(ctx, "w", []Lease{{JobID: "j"}}); return err },
				"register":  func() error { return cl.RegisterWorker(ctx, WorkerInfo{Name: "w"}) },
			} {
				if err := call(); err != nil {
					t.Fatal(name, err)
				}
				if query, prefer := c.asked(); query != tc.life || prefer != tc.lives {
					t.Errorf("%s: asked %q, Prefer %q", name, query, prefer)
				}
			}
		})
	}
}

// The server's answer still arrives when the caller's time is short.
func TestAcksKeepToTheDeadline(t *testing.T) {
	c, cl := newPair(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := cl.Enqueue(WithAck(ctx, AckObject), NewJob{}); err != nil {
		t.Fatal(err)
	}
	query, _ := c.asked()
	var ms int
	if _, err := fmt.Sscanf(query, "ack=object&ackWaitMs=%d", &ms); err != nil || ms < 1000 || ms > 1800 {
		t.Errorf("asked %q, %v", query, err)
	}
	if got := cl.ackWait(ctx, call{write: true, ack: AckObject, wait: time.Hour}); got != 0 {
		t.Errorf("waits %v after a long poll that takes all the time", got)
	}
}

// An attempt may take as long as the wait that the client asked the server for.
func TestAcksExtendTheAttempt(t *testing.T) {
	c := newCluster(t)
	c.say(v1.AckObject)
	cl := c.client(func(cfg *Config) { cfg.AttemptTimeout, cfg.RetryFor = 100*time.Millisecond, -1 })
	c.faultFor(v1.PathJobs, 2, func(_ *node, w http.ResponseWriter, r *http.Request, answer func(http.ResponseWriter)) {
		select {
		case <-time.After(400 * time.Millisecond):
			answer(w)
		case <-r.Context().Done():
		}
	})
	got, err := cl.Enqueue(WithAck(bounded(t), AckObject), NewJob{})
	if err != nil || got.Committed != AckObject {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := cl.Enqueue(WithAck(bounded(t), AckQuorum), NewJob{}); err == nil {
		t.Error("an attempt that waits for nothing took longer than it may")
	}
}

func TestResultsTellHowSafeTheyAre(t *testing.T) {
	for level, want := range map[string]Ack{"": AckQuorum, v1.AckQuorum: AckQuorum, v1.AckObject: AckObject} {
		c := newCluster(t)
		c.say(level)
		cl := c.client(func(cfg *Config) { cfg.AckWait = time.Millisecond })
		c.script("POST /v1/jobs/j/cancel", `{"lsn":"1-7","status":"cancelled"}`)
		c.script("POST /v1/jobs/cancel", `{"lsn":"1-7","count":1,"results":[{"jobId":"a","status":"ok"},{"jobId":"b","status":"not_found"}]}`)
		c.script("POST /v1/crons/c/trigger", `{"lsn":"1-7","jobId":"j"}`)
		c.script("POST /v1/jobs/batch", `{"lsn":"1-7","jobIds":["j"]}`)
		ctx := WithAck(bounded(t), AckObject)
		one, err1 := cl.Cancel(ctx, "j")
		many, err2 := cl.CancelMany(ctx, []string{"a", "b"})
		fired, err3 := cl.TriggerCron(ctx, "c")
		batch, err4 := cl.EnqueueBatch(ctx, []NewJob{{}})
		check(t, errors.Join(err1, err2, err3, err4))
		got := fmt.Sprint(one.LSN, one.Committed, many[0].LSN, many[0].Committed, many[1].LSN, many[1].Committed, fired.Committed, batch.Committed)
		if got != fmt.Sprint("1-7", want, "1-7", want, "", Ack(""), want, want) {
			t.Errorf("said %q: %s", level, got)
		}
	}
}

// A receipt has the newest LSN and what all writes have reached.
func TestReceipt(t *testing.T) {
	c, cl := newPair(t)
	var r Receipt
	ctx := WithReceipt(bounded(t), &r)
	if r.LSN() != "" || r.Committed() != AckDefault {
		t.Fatalf("%s %s", r.LSN(), r.Committed())
	}
	c.answers[v1.PathStats] = `{}`
	if _, err := cl.Stats(ctx); err != nil || r.LSN() != "" {
		t.Fatalf("a read was noted: %s, %v", r.LSN(), err)
	}
	for _, step := range []struct {
		level string
		want  Ack
	}{{v1.AckObject, AckObject}, {v1.AckQuorum, AckQuorum}, {v1.AckObject, AckQuorum}} {
		c.say(step.level)
		check(t, cl.RegisterWorker(ctx, WorkerInfo{Name: "w"}))
		if r.Committed() != step.want || r.LSN() != c.lsn() {
			t.Errorf("after %s: %s at %s", step.level, r.Committed(), r.LSN())
		}
	}
	c.faultFor(v1.PathWorkers, 1, refusing(400, v1.TagBadRequest, v1.CommittedNo, 0))
	var none Receipt
	if err := cl.RegisterWorker(WithReceipt(ctx, &none), WorkerInfo{}); err == nil || none.LSN() != "" {
		t.Errorf("a failure was noted at %s", none.LSN())
	}
}

// If a wait for the bucket is cut short, the client continues it at the new leader.
func TestAckGoesOnAfterAChangeOfLeader(t *testing.T) {
	c := newCluster(t)
	c.say(v1.AckQuorum)
	cl := c.client(nil)
	reached := `{"lsn":"1-1","level":"object","appliedLsn":"1-1","flushedLsn":"1-1"}`
	c.answers["/v1/lsn/1-1/wait"] = reached
	got, err := cl.Enqueue(WithAck(bounded(t), AckObject), NewJob{})
	if err != nil || got.Committed != AckObject {
		t.Errorf("%+v, %v", got, err)
	}
	if query, _ := c.asked(); !strings.HasPrefix(query, "level=object&waitMs=") {
		t.Errorf("%v", c.requests())
	}
	// A wait whose time is over is not repeated.
	before := len(c.requests())
	short := c.client(func(cfg *Config) { cfg.AckWait = 50 * time.Millisecond })
	if got, err = short.Enqueue(WithAck(bounded(t), AckObject), NewJob{}); err != nil || got.Committed != AckQuorum || len(c.requests()) != before+1 {
		t.Errorf("%+v, %v, %v", got, err, c.requests()[before:])
	}
	// Whatever becomes of that wait, the write has succeeded.
	c.faultFor(v1.PathLSN, 1, refusing(400, v1.TagBadRequest, "", 0))
	if got, err := cl.Enqueue(WithAck(bounded(t), AckObject), NewJob{}); err != nil || got.Committed != AckQuorum {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestWaitLSN(t *testing.T) {
	c, cl := newPair(t)
	c.answers["/v1/lsn/3-7/wait"] = `{"lsn":"3-7","level":"object","appliedLsn":"3-9","flushedLsn":"3-8"}`
	late := func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		writeJSON(w, 504, v1.Problem{Status: 504, Tag: v1.TagTimeout, Detail: "3-7 is not in the bucket (which is at 3-5)", RetryAfterMs: 60_000})
	}
	c.faultFor(v1.PathLSN, 3, late)
	began := time.Now()
	got, err := cl.WaitLSN(bounded(t), "3-7", AckObject)
	if err != nil || got.FlushedLSN != "3-8" || len(c.requests()) != 4 || time.Since(began) > 10*time.Second {
		t.Errorf("%+v, %v after %v, %v", got, err, time.Since(began), c.requests())
	}
	if _, err := cl.WaitLSN(bounded(t), "3-7", AckDefault); err != nil {
		t.Fatal(err)
	}
	if query, _ := c.asked(); !strings.HasPrefix(query, "level=quorum&waitMs=") {
		t.Errorf("asked %q", query)
	}
	waitLSNInVain(t, late)
	before := len(c.requests())
	for _, bad := range []func() error{
		func() error { _, err := cl.WaitLSN(bounded(t), "3", AckObject); return err },
		func() error { _, err := cl.WaitLSN(bounded(t), "3-7", "bucket"); return err },
		func() error { _, err := cl.Enqueue(WithAck(bounded(t), "bucket"), NewJob{}); return err },
		func() error { _, err := New(Config{Servers: c.urls(), Ack: "bucket"}); return err },
	} {
		if err := bad(); err == nil {
			t.Error("it was taken")
		}
	}
	if len(c.requests()) != before {
		t.Error("something was sent")
	}
}

// waitLSNInVain: who has waited in vain knows for what. On a simulated clock requests
// take no time, so that it ends between two of them.
func waitLSNInVain(t *testing.T, late fault) {
	synctest.Test(t, func(t *testing.T) {
		cl, err := New(Config{Servers: []string{"http://a"}, Transport: roundTrips(func(r *http.Request) (*http.Response, error) {
			w := httptest.NewRecorder()
			late(nil, w, r, nil)
			return w.Result(), nil
		})})
		check(t, err)
		defer cl.Close()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		_, err = cl.WaitLSN(ctx, "3-7", AckObject)
		e := failed(t, err)
		if !errors.Is(err, context.DeadlineExceeded) || e.Tag != v1.TagTimeout || !strings.Contains(err.Error(), "3-5") || e.Committed != CommittedNo {
			t.Errorf("%+v", e)
		}
	})
}

// An LSN of a cluster that was lost is no LSN to wait for, and no write to count on.
func TestWaitLSNOfALostCluster(t *testing.T) {
	c, cl := newPair(t)
	c.faultFor(v1.PathLSN, -1, refusing(410, v1.TagLSNGone, "", 0))
	began := time.Now()
	if _, err := cl.WaitLSN(bounded(t), "3-7", AckObject); failed(t, err).Tag != v1.TagLSNGone || len(c.requests()) != 1 {
		t.Errorf("%v after %v and %d requests", err, time.Since(began), len(c.requests()))
	}
}

// A bucket that is too far behind is no reason to look for another leader. The
// call is repeated within its time, and says at the end what is the matter.
func TestTooFarBehind(t *testing.T) {
	c := newCluster(t)
	c.elect(1)
	const why = "the bucket is 5m1s behind: connection refused"
	lag := func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		writeJSON(w, 503, v1.Problem{Status: 503, Tag: v1.TagFlushLag, Detail: why, Committed: v1.CommittedNo, RetryAfterMs: 100})
	}
	c.faultFor(v1.PathJobs, 2, lag)
	cl := c.client(nil)
	added(t, cl, NewJob{})
	if got := strings.Join(c.requests(), ";"); got != "1 POST /v1/jobs;1 POST /v1/jobs;1 POST /v1/jobs" {
		t.Errorf("%s", got)
	}
	c.faultFor(v1.PathJobs, -1, lag)
	hasty := c.client(func(cfg *Config) { cfg.RetryFor = 500 * time.Millisecond })
	began := time.Now()
	_, err := hasty.Enqueue(bounded(t), NewJob{})
	e := failed(t, err)
	if e.Tag != v1.TagFlushLag || e.Committed != CommittedNo || !strings.Contains(err.Error(), why) || time.Since(began) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(began))
	}
	var asks atomic.Int32
	c.setFault(func(_ *node, r *http.Request) fault {
		if r.URL.Path == v1.PathStatus {
			asks.Add(1)
			return nil
		}
		return lag
	})
	_, _ = hasty.Enqueue(bounded(t), NewJob{})
	if n := asks.Load(); n != 0 {
		t.Errorf("the leader was looked for %d times", n)
	}
}
