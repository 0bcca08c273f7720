package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "osqueue/client/api/v1"
)

// eventLog is the stream that all nodes of a fake cluster send.
type eventLog struct {
	mu      sync.Mutex
	n       int           // events so far; their ids are 1-1.0, 1-2.0, …
	more    chan struct{} // closed and replaced when there are more
	forgot  int           // the first so many are held no more
	each    int           // a connection is cut after so many; 0: never
	streams []string      // node and Last-Event-ID of each connection
	queries []string
	arrived chan struct{} // has one for each connection
}

func newEventLog(c *fakeCluster, n int) *eventLog {
	l := &eventLog{n: n, more: make(chan struct{}), arrived: make(chan struct{}, 100)}
	c.setFault(func(_ *node, r *http.Request) fault {
		if r.URL.Path != v1.PathEvents {
			return nil
		}
		return func(n *node, w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) { l.serve(n, w, r) }
	})
	return l
}

func (l *eventLog) add(n int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += n
	close(l.more)
	l.more = make(chan struct{})
}

// addAfter adds n events when there have been so many connections.
func (l *eventLog) addAfter(ctx context.Context, connections, n int) {
	go func() {
		for range connections {
			select {
			case <-l.arrived:
			case <-ctx.Done():
				return
			}
		}
		l.add(n)
	}()
}

func (l *eventLog) state() (n int, more chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n, l.more
}

func (l *eventLog) seen() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.streams)
}

func (l *eventLog) serve(n *node, w http.ResponseWriter, r *http.Request) {
	last := r.Header.Get(v1.HeaderLastEventID)
	l.mu.Lock()
	l.streams = append(l.streams, fmt.Sprint(n.i, " ", last))
	l.queries = append(l.queries, r.URL.RawQuery)
	at, forgot, each := l.n, l.forgot, l.each
	l.mu.Unlock()
	l.arrived <- struct{}{}
	if last != "" {
		fmt.Sscanf(last, "1-%d.0", &at)
		if at < forgot {
			refuse(w, http.StatusGone, v1.TagHistoryGone, "", 0)
			return
		}
	}
	w.Header().Set("Content-Type", mediaTypeEvents)
	io.WriteString(w, ": hello\n\n")
	w.(http.Flusher).Flush()
	for sent := 0; each == 0 || sent < each; {
		now, more := l.state()
		if at < now {
			at++
			sent++
			fmt.Fprintf(w, "id: 1-%d.0\r\nevent: job.enqueued\ndata: {\"id\":\"1-%d.0\",\ndata: \"kind\":\"job.enqueued\",\"jobId\":\"j%d\"}\n\n", at, at, at)
			w.(http.Flusher).Flush()
			continue
		}
		select {
		case <-more:
		case <-r.Context().Done():
			return
		case <-n.stuck:
			return
		}
	}
	fmt.Fprintf(w, "id: 9-9.9\nevent: job.enqueued\ndata: {\"id\":") // not finished
	cut(w)
}

// takeEvents reads n events.
func takeEvents(ctx context.Context, cl *Client, o EventOptions, n int, began func()) (ids []string, err error) {
	for ev, err := range cl.Events(ctx, o) {
		if err != nil {
			return ids, err
		}
		if ev.Kind == v1.EventGap {
			ev.ID = "gap"
		}
		if ids = append(ids, ev.ID); len(ids) == n {
			return ids, nil
		}
		if began != nil {
			began()
		}
	}
	return ids, errors.New("the stream ended without an error")
}

func eventIDs(from, to int) (ids []string) {
	for i := from; i <= to; i++ {
		ids = append(ids, fmt.Sprintf("1-%d.0", i))
	}
	return ids
}

// Connections break off, nodes die: no event is missing, none is there twice.
func TestEventsGoOnElsewhere(t *testing.T) {
	c, cl := newPair(t)
	l := newEventLog(c, 40)
	l.each = 7
	killed := false
	ids, err := takeEvents(bounded(t), cl, EventOptions{After: "1-5.0", Type: "t", JobID: "j", Kinds: []string{"a", "b"}}, 35, func() {
		if len(l.seen()) == 3 && !killed {
			killed = true
			c.kill(0)
		}
	})
	if err != nil || !slices.Equal(ids, eventIDs(6, 40)) {
		t.Errorf("%v, %v", ids, err)
	}
	streams := l.seen()
	if len(streams) < 5 || !strings.HasSuffix(streams[0], " 1-5.0") {
		t.Errorf("%q", streams)
	}
	if l.queries[0] != "job=j&kind=a%2Cb&type=t" {
		t.Errorf("asked with %s", l.queries[0])
	}
}

func TestEventsFromNow(t *testing.T) {
	c, cl := newPair(t)
	l := newEventLog(c, 10)
	l.addAfter(t.Context(), 1, 3)
	if ids, err := takeEvents(bounded(t), cl, EventOptions{}, 3, nil); err != nil || !slices.Equal(ids, eventIDs(11, 13)) {
		t.Errorf("%v, %v", ids, err)
	}
}

// If no node holds the next event, the client yields a gap, and the stream
// continues from now on.
func TestEventsThatAreGone(t *testing.T) {
	c, cl := newPair(t)
	l := newEventLog(c, 10)
	l.forgot = 8
	l.addAfter(t.Context(), 4, 2)
	ids, err := takeEvents(bounded(t), cl, EventOptions{After: "1-5.0"}, 3, nil)
	if want := append([]string{"gap"}, eventIDs(11, 12)...); err != nil || !slices.Equal(ids, want) {
		t.Errorf("%v, %v", ids, err)
	}
	nodes := map[byte]bool{}
	for _, s := range l.seen()[:3] {
		nodes[s[0]] = true
	}
	if len(nodes) != 3 {
		t.Errorf("not every node was asked: %q", l.seen())
	}
}

// A stream that broke off before its first event may have missed some.
func TestEventsBeforeTheFirst(t *testing.T) {
	c, cl := newPair(t)
	l := newEventLog(c, 10)
	var once sync.Once
	serve := c.fault
	c.setFault(func(n *node, r *http.Request) fault {
		f := serve(n, r)
		if f == nil {
			return nil
		}
		once.Do(func() {
			f = func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
				w.Header().Set("Content-Type", mediaTypeEvents)
				w.(http.Flusher).Flush()
				cut(w)
			}
		})
		return f
	})
	l.addAfter(t.Context(), 1, 1)
	if ids, err := takeEvents(bounded(t), cl, EventOptions{}, 2, nil); err != nil || !slices.Equal(ids, []string{"gap", "1-11.0"}) {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestEventsEnd(t *testing.T) {
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.RetryFor = 200 * time.Millisecond })
	l := newEventLog(c, 10)
	ctx, cancel := context.WithCancel(bounded(t))
	_, err := takeEvents(ctx, cl, EventOptions{After: "1-8.0"}, 9, cancel)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	_, err = takeEvents(bounded(t), cl, EventOptions{After: "1-9.0"}, 9, cl.Close)
	if !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	again := c.client(func(cfg *Config) { cfg.RetryFor = 200 * time.Millisecond })
	ids, err := takeEvents(bounded(t), again, EventOptions{After: "1-9.0"}, 9, func() {
		for i := range c.nodes {
			c.kill(i)
		}
	})
	if e := failed(t, err); !e.Unreachable() || len(ids) != 1 {
		t.Errorf("all nodes dead: %v, %v", ids, err)
	}
	if n := len(l.seen()); n != 3 {
		t.Errorf("%d streams", n)
	}
}

func TestEventsThatAreRefused(t *testing.T) {
	cases := map[string]struct {
		f    fault
		want func(error) bool
	}{
		"bad query": {refusing(400, v1.TagBadRequest, "", 0), func(err error) bool { return HasTag(err, v1.TagBadRequest) }},
		"no event":  {sends("data: {\n\n"), func(err error) bool { return errors.Is(err, errNoEvent) }},
		"too long":  {sends("data: " + strings.Repeat("x", maxEventBytes+1)), func(err error) bool { return errors.Is(err, errLongEvent) }},
		"too many lines": {
			sends(strings.Repeat("data: "+strings.Repeat("x", maxEventBytes/2)+"\n", 3)),
			func(err error) bool { return errors.Is(err, errLongEvent) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c, cl := newPair(t)
			c.faultFor(v1.PathEvents, -1, tc.f)
			if _, err := takeEvents(bounded(t), cl, EventOptions{}, 1, nil); !tc.want(err) {
				t.Errorf("got %v", err)
			}
			if n := len(c.requests()); n != 1 {
				t.Errorf("%d streams", n)
			}
		})
	}
	c := newCluster(t)
	cl := c.client(func(cfg *Config) { cfg.RetryFor = time.Second })
	c.faultFor(v1.PathEvents, -1, func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		io.WriteString(w, "<html>")
	})
	if _, err := takeEvents(bounded(t), cl, EventOptions{}, 1, nil); err == nil || len(c.requests()) < 2 {
		t.Errorf("a foreign server: %v", err)
	}
}

// sends streams a text and then nothing.
func sends(text string) fault {
	return func(n *node, w http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
		w.Header().Set("Content-Type", mediaTypeEvents)
		io.WriteString(w, text)
		w.(http.Flusher).Flush()
		frozen(n, w, r, nil)
	}
}

func TestFrames(t *testing.T) {
	text := ": comment\n\nid: 1\n\nevent:a\ndata:x\ndata:  y\nretry: 5\nunknown\n\nid: 2\r\nevent: gap\r\n\r\nid: 3\x00\ndata: z\n\nid: 9\ndata: lost"
	f := newFrames(strings.NewReader(text), func() {})
	var got []string
	for {
		one, err := f.next()
		if err != nil {
			if !errors.Is(err, io.EOF) {
				t.Error(err)
			}
			break
		}
		got = append(got, fmt.Sprintf("%s %s %q", f.id, one.name, one.data))
	}
	if f.id != "2" {
		t.Errorf("an event that was cut off left the id %q", f.id)
	}
	if want := []string{`1 a "x\n y"`, `2 gap ""`, `2  "z"`}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func FuzzFrames(f *testing.F) {
	f.Add("id: 1\nevent: a\ndata: {}\n\n")
	f.Add("data\n\n:\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		frames := newFrames(strings.NewReader(text), func() {})
		for range len(text) + 1 {
			one, err := frames.next()
			if err != nil {
				return
			}
			if one == (frame{}) || strings.ContainsAny(frames.id, "\x00\n") {
				t.Fatalf("%+v with the id %q", one, frames.id)
			}
		}
		t.Fatal("more events than bytes")
	})
}
