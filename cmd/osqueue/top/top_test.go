package top

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// fakeCluster answers polls.
type fakeCluster struct {
	err   error
	types []v1.Queue
}

func (f *fakeCluster) StatusAll(context.Context) []client.NodeStatus {
	leader := client.NodeStatus{Server: "http://a:1", Status: v1.Status{
		NodeID: "n1", State: v1.StateLeader, LSN: "3-17", Workers: 1, Tasks: v1.TaskCounts{Pending: 3, Processing: 1, Dead: 2},
		LagEntries: 5, LagMs: 40, Fence: v1.Fence{State: "active"},
	}}
	if f.err != nil {
		leader.Status.State = v1.StateFollower
	}
	return []client.NodeStatus{leader, {Server: "http://b:1", Err: errors.New("connection refused")}}
}

func (f *fakeCluster) Queues(_ context.Context, sort string) iter.Seq2[v1.Queue, error] {
	return func(yield func(v1.Queue, error) bool) {
		if sort != v1.SortOldestAt {
			panic("a stuck type may be missing: the order is " + sort)
		}
		if f.err != nil {
			yield(v1.Queue{}, f.err)
			return
		}
		for _, q := range f.types {
			if !yield(q, nil) {
				return
			}
		}
	}
}

func (f *fakeCluster) Workers(context.Context) ([]v1.Worker, error) {
	return []v1.Worker{{Name: "w1\x1b[2J", Running: 1, LastSeen: time.Now().UnixMilli()}}, f.err
}

func (f *fakeCluster) History(context.Context, string, int) (v1.History, error) {
	return v1.History{Minutes: []v1.HistoryMinute{{}, {Enqueued: 600, Completed: 300, Failed: 30}, {Enqueued: 60}}}, f.err
}

func newTestModel(f *fakeCluster, width, height int) *model {
	g := &view.Globals{
		Out: &strings.Builder{}, Getenv: func(string) string { return "" }, Timeout: time.Second,
		Screen: func() (int, int, bool) { return width, 24, true }, Servers: []string{"a:1", "b:1"},
	}
	m := newModel(g, &poller{c: f, timeout: time.Second}, time.Second)
	m.Update(tea.WindowSizeMsg{Width: width, Height: height})
	return m
}

func poll(m *model) { m.Update(m.poll()()) }

// shows fails unless the screen has the texts, and has the size of the terminal.
func shows(t *testing.T, m *model, texts ...string) {
	t.Helper()
	screen := ansi.Strip(m.text())
	for _, text := range texts {
		if !strings.Contains(screen, text) {
			t.Errorf("%q is missing:\n%s", text, screen)
		}
	}
	lines := strings.Split(screen, "\n")
	if len(lines) != m.height {
		t.Errorf("%d lines, want %d", len(lines), m.height)
	}
	for _, line := range lines {
		if ansi.StringWidth(line) > m.width {
			t.Errorf("wider than %d: %q", m.width, line)
		}
	}
}

func types(n int) []v1.Queue {
	out := make([]v1.Queue, n)
	for i := range out {
		out[i] = v1.Queue{Type: fmt.Sprintf("type%03d", i), TypeStats: v1.TypeStats{Unclaimed: i, Dead: n - i}}
	}
	return out
}

func TestScreen(t *testing.T) {
	f := &fakeCluster{types: types(100)}
	f.types[7].OldestAt = time.Now().Add(-time.Hour).UnixMilli()
	m := newTestModel(f, 80, 24)
	shows(t, m, "asking a:1, b:1")
	poll(m)
	shows(t, m, "1 of 2 nodes up, n1 leads; 3 pending, 1 running, 2 dead; 1 worker", "bucket lags by 40ms of the log (entries: 5)",
		"10.0/s  ▁█▁", "5.0/s", "failed 0.5/s  most 300/min", "most 600/min", "types by oldest  1 of 100")
	if first := strings.Split(ansi.Strip(m.text()), "\n")[headLines+1]; !strings.HasPrefix(first, "type007") || !strings.Contains(first, "1h") {
		t.Errorf("the type whose job waits longest is not first: %s", first)
	}
	m.press("s")
	shows(t, m, "types by available", "type099")
	m.press("end")
	shows(t, m, "type000")
	m.press("tab")
	shows(t, m, "workers", `w1\x1b[2J`)
	m.press("tab")
	shows(t, m, "b:1", "unreachable", "connection refused")
	if cmd := m.press("q"); cmd == nil {
		t.Error("q does not quit")
	}
}

// The last figures stay on the screen while no leader answers, with their age and the
// reason.
func TestScreenWithoutALeader(t *testing.T) {
	f := &fakeCluster{types: types(2)}
	m := newTestModel(f, 100, 24)
	poll(m)
	f.err = errors.New("no leader")
	poll(m)
	shows(t, m, "no leader", "figures are", "type001")
	f.err = nil
	poll(m)
	shows(t, m, "n1 leads")
	m.press("space")
	f.types = nil
	poll(m)
	shows(t, m, "STOPPED", "type001")
	m.press("space")
	poll(m)
	shows(t, m, "0 of 0")
}

// Small terminals and many types change the part that is shown only.
func TestScreenOfAnySize(t *testing.T) {
	f := &fakeCluster{types: types(typesMost + 1)}
	for _, size := range [][2]int{{80, 24}, {20, 8}, {200, 60}} {
		m := newTestModel(f, size[0], size[1])
		poll(m)
		for _, key := range []string{"pgdown", "pgdown", "up", "down", "home", "end", "tab", "end", "tab", "end", "tab"} {
			m.press(key)
			shows(t, m)
		}
	}
	m := newTestModel(f, 80, 24)
	poll(m)
	shows(t, m, "(more are not shown)")
}

// A narrow screen keeps the age of the oldest job and the reason why it waits.
func TestNarrowScreen(t *testing.T) {
	f := &fakeCluster{types: types(2)}
	f.types[1].OldestAt = time.Now().Add(-time.Hour).UnixMilli()
	f.types[1].Type = "a-type-with-a-long-name"
	f.types[0].Settings.Paused = true
	m := newTestModel(f, 40, 10)
	poll(m)
	shows(t, m, "OLDEST", "1h", "STATE", "paused")
}

// A type that waits in vain says why.
func TestTypesWithoutAWorker(t *testing.T) {
	workers := []v1.Worker{{Name: "w", Types: []string{"mail"}}}
	for name, c := range map[string]struct {
		jobType            string
		available, running int
		paused             bool
		want               string
	}{
		"no worker": {"film", 1, 0, false, "no worker"},
		"a worker":  {"mail", 1, 0, false, "-"},
		"running":   {"film", 1, 1, false, "-"},
		"empty":     {"film", 0, 0, false, "-"},
		"paused":    {"film", 1, 0, true, "paused"},
	} {
		q := v1.Queue{Type: c.jobType, Settings: v1.QueueSettings{Paused: c.paused}}
		q.Unclaimed, q.InProgress = c.available, c.running
		if row := typeRow(q, workers, time.Now()); row[len(row)-1] != c.want {
			t.Errorf("%s: %q, want %q", name, row[len(row)-1], c.want)
		}
	}
}

// A follower does not know how far the bucket is behind: it has not heard of the last flush yet.
func TestFollowerHasNoLag(t *testing.T) {
	if row := nodeRow(client.NodeStatus{Status: v1.Status{State: v1.StateFollower, LagEntries: 2}}); row[4] != "-" {
		t.Errorf("%q", row)
	}
}
