package api

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/notify"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/limit"
)

// reader reads a stream of events as HTML describes it.
type reader struct {
	t     testing.TB
	lines chan string // closed at the end of the stream
	id    string
	end   context.CancelFunc
}

// follow opens a stream.
func (s *served) follow(query string, header ...string) *reader {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+v1.PathEvents+query, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = res.Body.Close() })
	if res.StatusCode != http.StatusOK || res.Header.Get("Content-Type") != mediaTypeEvents {
		body, _ := io.ReadAll(res.Body)
		s.t.Fatalf("answered %d %s", res.StatusCode, body)
	}
	e := &reader{t: s.t, lines: make(chan string, 10_000), end: cancel}
	go func() {
		defer close(e.lines)
		for sc := bufio.NewScanner(res.Body); sc.Scan(); {
			e.lines <- sc.Text()
		}
	}()
	if f := e.frame(); f["retry"] == "" || f["id"] == "" || f["event"] != "" {
		s.t.Fatalf("the stream begins with %v", f)
	}
	return e
}

// frame returns the next block of lines, by field.
func (e *reader) frame() map[string]string {
	e.t.Helper()
	f := make(map[string]string)
	late := time.After(5 * time.Second)
	for {
		select {
		case line, open := <-e.lines:
			switch {
			case !open:
				return nil
			case line == "":
				if id, there := f["id"]; there {
					e.id = id
				}
				return f
			}
			name, value, _ := strings.Cut(line, ": ")
			f[name] = value
		case <-late:
			e.t.Fatalf("nothing comes; so far %v", f)
		}
	}
}

// next returns the next event.
func (e *reader) next() v1.Event {
	e.t.Helper()
	for {
		f := e.frame()
		if f == nil {
			e.t.Fatal("the stream has ended")
		}
		if f["event"] == "" {
			continue
		}
		var ev v1.Event
		if err := json.Unmarshal([]byte(f["data"]), &ev, json.RejectUnknownMembers(true)); err != nil {
			e.t.Fatalf("%v: %v", f, err)
		}
		if ev.Kind != f["event"] || ev.ID != f["id"] {
			e.t.Fatalf("the frame and its data differ: %v", f)
		}
		return ev
	}
}

// kinds returns the kinds of the next n events.
func (e *reader) kinds(n int) string {
	e.t.Helper()
	var all []string
	for range n {
		all = append(all, e.next().Kind)
	}
	return strings.Join(all, " ")
}

func TestEventsOfAJob(t *testing.T) {
	s := newServed(t)
	e := s.follow("")
	s.submit("a", "t")
	j := s.claim1()
	s.do("POST", "/v1/jobs/a/fail", `{"workerId":"w","error":"no \n luck"}`)
	want := v1.Event{ID: "3-2.1", LSN: "3-2", Kind: v1.EventEnqueued, At: startMs, JobID: "a", Type: "t", Status: v1.StatusUnclaimed}
	if got := e.next(); got != want {
		t.Fatalf("got %+v, want %+v", got, want)
	}
	got := e.next()
	if got.Kind != v1.EventClaimed || got.From != v1.StatusUnclaimed || got.WorkerID == nil || *got.WorkerID != "w" || got.Attempts != j.Attempts {
		t.Fatalf("got %+v", got)
	}
	if got = e.next(); got.Kind != v1.EventFailed || got.Error != "no \n luck" || got.ID != "3-4.1" {
		t.Fatalf("got %+v", got)
	}
}

func TestEventKinds(t *testing.T) {
	change := func(from, to fsm.Status, end fsm.End) notify.Event {
		return notify.Event{Kind: fsm.JobChanged, From: from, Status: to, End: end, JobID: "a"}
	}
	for want, e := range map[string]notify.Event{
		v1.EventEnqueued:     change(0, fsm.Blocked, 0),
		v1.EventDue:          change(fsm.Scheduled, fsm.Unclaimed, fsm.EndFail),
		v1.EventUnblocked:    change(fsm.Blocked, fsm.Scheduled, 0),
		v1.EventClaimed:      change(fsm.Unclaimed, fsm.InProgress, fsm.EndFail),
		v1.EventCompleted:    change(fsm.InProgress, fsm.Completed, fsm.EndOK),
		v1.EventFailed:       change(fsm.InProgress, fsm.Scheduled, fsm.EndFail),
		v1.EventLeaseExpired: change(fsm.InProgress, fsm.Unclaimed, fsm.EndLease),
		v1.EventTimedOut:     change(fsm.InProgress, fsm.Unclaimed, fsm.EndTimeout),
		v1.EventReleased:     change(fsm.InProgress, fsm.Unclaimed, fsm.EndReleased),
		v1.EventSuspended:    change(fsm.InProgress, fsm.Scheduled, fsm.EndSuspended),
		v1.EventDead:         change(fsm.InProgress, fsm.Dead, fsm.EndLease),
		v1.EventCancelled:    change(fsm.Blocked, fsm.Cancelled, 0),
		v1.EventExpired:      change(fsm.Blocked, fsm.Expired, 0),
		v1.EventRetried:      change(fsm.Dead, fsm.Unclaimed, 0),
	} {
		if got := core.EventKind(&e); got != want {
			t.Errorf("%v to %v: %s, want %s", e.From, e.Status, got, want)
		}
	}
	seen := map[string]bool{}
	for k := range fsm.BucketHealed + 1 {
		name := core.EventKind(&notify.Event{Kind: k, From: fsm.InProgress, Status: fsm.InProgress})
		if !slices.Contains(eventKinds, name) || seen[name] {
			t.Errorf("kind %d is %q", k, name)
		}
		seen[name] = true
	}
}

func TestEventsResume(t *testing.T) {
	s := newServed(t)
	for i := range 5 {
		s.submit(fmt.Sprint(i), "t")
	}
	e := s.follow("?lastEventId=3-3.1")
	if got := e.next().ID + " " + e.next().ID; got != "3-4.1 3-5.1" {
		t.Fatalf("got %s", got)
	}
	e.end()
	e = s.follow("?lastEventId=3-3.1", v1.HeaderLastEventID, e.id) // the header counts
	if got := e.next().ID; got != "3-6.1" {
		t.Fatalf("got %s", got)
	}
	e = s.follow("?lastEventId=0-0.0")
	if got := e.kinds(3); got != "broker.registered job.enqueued job.enqueued" {
		t.Fatalf("all that is held begins with %s", got)
	}
	// A reader that has seen nothing yet can resume, too.
	e = s.follow("")
	e.end()
	s.submit("5", "t")
	if got := s.follow("", v1.HeaderLastEventID, e.id).next().JobID; got != "5" {
		t.Fatalf("got %s", got)
	}
}

// A stream can be resumed on another node with the same entries, and waits if that node is
// behind.
func TestEventsResumeOnAnotherNode(t *testing.T) {
	one, two := newServed(t), newServed(t)
	two.node.set(func(f *fakeNode) { f.lead, f.leader = false, "" })
	submit := func(s *served, i int) {
		_, _, err := s.node.apply(core.EnqueueOf([]*fsmpb.NewJob{{Id: fmt.Sprint(i), Type: "t"}}))
		if err != nil {
			t.Fatal(err)
		}
	}
	for i := range 5 {
		submit(one, i)
	}
	for i := range 3 {
		submit(two, i)
	}
	e := one.follow("?lastEventId=0-0.0")
	var ids []string
	for range 5 { // the broker and four jobs
		ids = append(ids, e.next().ID)
	}
	e.end()
	e = two.follow("", v1.HeaderLastEventID, e.id)
	for i := 3; i < 6; i++ {
		submit(two, i)
	}
	ids = append(ids, e.next().ID, e.next().ID)
	if got := strings.Join(ids, " "); got != "3-1.1 3-2.1 3-3.1 3-4.1 3-5.1 3-6.1 3-7.1" {
		t.Fatalf("got %s", got)
	}
}

func TestEventsFilter(t *testing.T) {
	s := newServed(t)
	s.submit("a", "t")
	s.submit("b", "u")
	s.submit("c", "x,y")
	s.claim1()
	s.do("POST", "/v1/jobs/a/complete", `{"workerId":"w"}`)
	for query, want := range map[string]string{
		"type=t":                               "job.enqueued a, job.claimed a, job.completed a",
		"type=u,t&kind=job.enqueued":           "job.enqueued a, job.enqueued b",
		"type=u&type=t&kind=job.enqueued":      "job.enqueued a, job.enqueued b",
		"type=x,y":                             "job.enqueued c",
		"job=b":                                "job.enqueued b",
		"job=b,c":                              "job.enqueued b, job.enqueued c",
		"job=a&kind=job.completed,job.claimed": "job.claimed a, job.completed a",
		"kind=broker.":                         "broker.registered ",
		"kind=&type=&job=c":                    "job.enqueued c",
	} {
		e := s.follow("?lastEventId=0-0.0&" + query)
		var got []string
		for range strings.Count(want, ",") + 1 {
			ev := e.next()
			got = append(got, ev.Kind+" "+ev.JobID)
		}
		if all := strings.Join(got, ", "); all != want {
			t.Errorf("%s: %s, want %s", query, all, want)
		}
		e.end()
	}
	for _, query := range []string{"kind=nope", "kind=job", "kind=nope.", "kind=job.dead,", "lastEventId=x", "lastEventId=3-1", "%zz", "kind=" + strings.Repeat("job.,", 101)} {
		refused(t, s.do("GET", "/v1/events?"+query, ""), http.StatusBadRequest, v1.TagBadRequest)
	}
	refused(t, s.do("GET", "/v1/events", "", v1.HeaderLastEventID, "x"), http.StatusBadRequest, v1.TagBadRequest)
}

func TestEventsThatAreNotHeld(t *testing.T) {
	s := newServed(t)
	s.node.set(func(f *fakeNode) { f.history = notify.NewHistory(3) })
	for i := range 6 {
		s.submit(fmt.Sprint(i), "t") // 3-2 to 3-7
	}
	e := s.follow("?lastEventId=3-2.1&type=t")
	if got := e.next(); got != (v1.Event{LSN: "3-4", Kind: v1.EventGap, At: startMs}) {
		t.Fatalf("got %+v", got)
	}
	if e.id != "3-2.1" {
		t.Fatalf("a gap has moved the id to %s", e.id)
	}
	if got := e.next().ID; got != "3-5.1" {
		t.Fatalf("after the gap comes %s", got)
	}
	p := refused(t, s.do("GET", "/v1/events?lastEventId=3-2.1", "", "Prefer", v1.PreferStrict), http.StatusGone, v1.TagHistoryGone)
	if !strings.Contains(p.Detail, "3-4.1") {
		t.Fatalf("the problem says %s", p.Detail)
	}
	e = s.follow("?lastEventId=0-0.0", "Prefer", v1.PreferStrict)
	if got := e.kinds(2); got != "gap job.enqueued" {
		t.Fatalf("all that is held is %s", got)
	}
	e = s.follow("?lastEventId=3-4.1", "Prefer", v1.PreferStrict)
	if got := e.next().ID; got != "3-5.1" {
		t.Fatalf("got %s", got)
	}
}

// A stream continues after the deadlines of requests, and sends keepalives. It advances the
// reader's position even if no event matches.
func TestEventsKeepAlive(t *testing.T) {
	s := newServed(t, func(c *core.Config) {
		c.Timeouts.Body, c.Timeouts.Answer, c.Timeouts.KeepAlive = 100*time.Millisecond, 100*time.Millisecond, 40*time.Millisecond
	})
	e := s.follow("?type=other")
	start, before := time.Now(), e.id
	for time.Since(start) < 300*time.Millisecond {
		if f := e.frame(); f[""] == "" && f[":"] == "" && len(f) == 0 {
			t.Fatalf("got %v", f)
		}
	}
	if e.id != before {
		t.Fatalf("the id moved to %s, and nothing happened", e.id)
	}
	s.submit("a", "t")
	for e.id == before {
		e.frame()
	}
	if e.id != "3-2.1" {
		t.Fatalf("the reader is moved to %s", e.id)
	}
	s.submit("b", "other")
	if got := e.next().JobID; got != "b" {
		t.Fatalf("got %s", got)
	}
}

func TestEventsEndWithTheServer(t *testing.T) {
	s := newServed(t)
	e := s.follow("")
	start := time.Now()
	s.end()
	if took := time.Since(start); took > 3*time.Second {
		t.Fatalf("it took %s", took)
	}
	if f := e.frame(); f != nil {
		t.Fatalf("got %v", f)
	}
}

func TestEventStreamsAreBounded(t *testing.T) {
	s := newServed(t)
	s.s.Shares.Events = limit.NewSlots(2, 2)
	first := s.follow("")
	s.follow("")
	refused(t, s.do("GET", "/v1/events", ""), http.StatusServiceUnavailable, v1.TagOverloaded)
	first.end()
	eventually(t, "the place is free", func() bool { return s.s.Shares.Events.Taken() == 1 })
	s.follow("")
	if got := s.do("HEAD", "/v1/jobs", "").status; got != http.StatusOK {
		t.Fatal(got)
	}
}

// A reader that does not read is cut off, and its slot becomes free.
func TestEventReadersThatDoNotReadAreCutOff(t *testing.T) {
	s := newServed(t, func(c *core.Config) {
		c.Timeouts.Answer, c.Timeouts.KeepAlive = 50*time.Millisecond, time.Millisecond
	})
	conn := s.dial()
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(1)
	}
	_, _ = fmt.Fprintf(conn, "GET /v1/events?lastEventId=0-0.0 HTTP/1.1\r\nHost: x\r\n\r\n")
	eventually(t, "the stream is open", func() bool { return s.s.Shares.Events.Taken() == 1 })
	long := strings.Repeat("t", 250)
	for i := 0; s.s.Shares.Events.Taken() == 1; i++ {
		if i == 2000 {
			t.Fatal("the stream is open still")
		}
		jobs := make([]*fsmpb.NewJob, 100)
		for n := range jobs {
			jobs[n] = &fsmpb.NewJob{Id: fmt.Sprintf("%d-%d", i, n), Type: long}
		}
		if _, _, err := s.node.apply(core.EnqueueOf(jobs)); err != nil {
			t.Fatal(err)
		}
	}
}
