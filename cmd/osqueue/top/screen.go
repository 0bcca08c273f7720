package top

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// headLines are the lines above the pane, and footLines those below it.
const (
	headLines = 5
	footLines = 1
)

// room is the number of lines for the pane, its header among them.
func (m *model) room() int { return max(2, m.height-headLines-footLines) }

// View returns the screen.
func (m *model) View() tea.View {
	v := tea.NewView(m.text())
	v.AltScreen = true
	return v
}

func (m *model) text() string {
	lines := m.head()
	table, err := m.g.Capture(m.width, m.table)
	if err != nil {
		table = err.Error()
	}
	rows := strings.Split(strings.TrimSuffix(table, "\n"), "\n")
	for i := range m.room() {
		if i < len(rows) {
			lines = append(lines, rows[i])
		} else {
			lines = append(lines, "")
		}
	}
	lines = append(lines, m.foot())
	for i, line := range lines {
		lines[i] = ansi.Truncate(line, m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// head returns headLines lines about the whole queue.
func (m *model) head() []string {
	if !m.polled {
		return []string{"osqueue top: asking " + strings.Join(m.g.Servers, ", ") + " …", "", "", "", ""}
	}
	state, bucket := m.cluster()
	in, out, failed := m.rates()
	return []string{
		state,
		bucket,
		fmt.Sprintf("enqueued  %8s/s  ", in) + m.spark(func(x v1.HistoryMinute) uint64 { return x.Enqueued }, ""),
		fmt.Sprintf("completed %8s/s  ", out) + m.spark(func(x v1.HistoryMinute) uint64 { return x.Completed }, "  failed "+failed+"/s"),
		"",
	}
}

// cluster describes the nodes, and the bucket as the leader sees it.
func (m *model) cluster() (state, bucket string) {
	up, leader := 0, -1
	for i, n := range m.now.nodes {
		if n.Err == nil {
			up++
			if n.Status.State == v1.StateLeader {
				leader = i
			}
		}
	}
	state = fmt.Sprintf("%d of %s up", up, view.Plural(len(m.now.nodes), "node"))
	if leader < 0 {
		return state + ", no leader", m.problem()
	}
	s := m.now.nodes[leader].Status
	state += fmt.Sprintf(", %s leads; %d pending, %d running, %d dead; %s", view.PlainLine(s.NodeID), s.Tasks.Pending, s.Tasks.Processing,
		s.Tasks.Dead, view.Plural(max(0, s.Workers), "worker"))
	if m.now.err != nil {
		return state, m.problem()
	}
	bucket = "bucket has everything"
	if s.LagEntries > 0 {
		bucket = fmt.Sprintf("bucket lags by %s of the log (entries: %d)", view.MsText(s.LagMs), s.LagEntries)
	}
	if s.Bucket != nil && s.Bucket.ProjectedUSD > 0 {
		bucket += fmt.Sprintf("; $%.2f a month", s.Bucket.ProjectedUSD)
	}
	for _, trouble := range []string{s.Refusing, s.FlushError, s.ArchiveError, s.StateError} {
		if trouble != "" {
			bucket += "; " + view.PlainLine(trouble)
		}
	}
	return state, bucket
}

// problem says why the figures are old.
func (m *model) problem() string {
	if m.now.err == nil {
		return ""
	}
	age := "no figures yet"
	if !m.now.at.IsZero() {
		age = "figures are " + view.Short(time.Since(m.now.at)) + " old"
	}
	return age + ": " + view.PlainLine(view.FirstLine(m.now.err.Error()))
}

// rates formats the rates of the last whole minute.
func (m *model) rates() (in, out, failed string) {
	minutes := m.now.history.Minutes
	if len(minutes) < 2 {
		return "-", "-", "-"
	}
	last := minutes[len(minutes)-2]
	rate := func(n uint64) string { return strconv.FormatFloat(float64(n)/60, 'f', 1, 64) }
	return rate(last.Enqueued), rate(last.Completed), rate(last.Failed)
}

// spark draws one character for each minute, then the note, and the number that the highest one stands for.
func (m *model) spark(of func(v1.HistoryMinute) uint64, note string) string {
	steps := []rune("▁▂▃▄▅▆▇█")
	most := uint64(0)
	for _, x := range m.now.history.Minutes {
		most = max(most, of(x))
	}
	var b strings.Builder
	for _, x := range m.now.history.Minutes {
		b.WriteRune(steps[of(x)*uint64(len(steps)-1)/max(most, 1)])
	}
	fmt.Fprintf(&b, "%s  most %d/min", note, most)
	return b.String()
}

// fullWidth is the least width, in columns, of a screen with all figures of types.
const fullWidth = 64

// table writes the rows of the pane that are shown.
func (m *model) table() error {
	now := m.now.at
	switch m.pane {
	case paneWorkers:
		return m.g.TableOf(view.WorkerColumns, rowsOf(m, m.now.workers, func(w v1.Worker) []string { return view.WorkerRow(w, now) }))
	case paneNodes:
		return m.g.TableOf(view.Columns("SERVER", "NODE", "STATE", "LSN", "LAG", "FENCE"), rowsOf(m, m.now.nodes, nodeRow))
	}
	if m.width < fullWidth {
		return m.g.TableOf(view.Columns("TYPE", "AVAIL", "OLDEST", "STATE"), rowsOf(m, m.sorted(), func(q v1.Queue) []string {
			row := typeRow(q, m.now.workers, now)
			return slices.Concat(row[:2], row[len(row)-2:])
		}))
	}
	return m.g.TableOf(view.Columns("TYPE", "AVAILABLE", "RUNNING", "SCHEDULED", "DEAD", "OLDEST", "STATE"),
		rowsOf(m, m.sorted(), func(q v1.Queue) []string { return typeRow(q, m.now.workers, now) }))
}

// rowsOf returns the cells of the items that the screen has room for.
func rowsOf[T any](m *model, items []T, row func(T) []string) [][]string {
	first := min(m.top, len(items))
	var out [][]string
	for _, item := range items[first:min(len(items), first+m.room()-1)] {
		cells := row(item)
		for i := range cells {
			cells[i] = view.PlainLine(cells[i])
		}
		out = append(out, cells)
	}
	return out
}

func typeRow(q v1.Queue, workers []v1.Worker, now time.Time) []string {
	state := "-"
	switch {
	case q.Settings.Paused:
		state = view.PauseCell(q.Pause, now)
	case q.LacksWorker(workers):
		state = "no worker"
	}
	return []string{
		view.OrDash(q.Type), strconv.Itoa(q.Unclaimed), strconv.Itoa(q.InProgress), strconv.Itoa(q.Scheduled), strconv.Itoa(q.Dead),
		view.AgoText(q.OldestAt, now), state,
	}
}

func nodeRow(n client.NodeStatus) []string {
	server := strings.TrimPrefix(strings.TrimPrefix(view.ServerName(n.Server), "http://"), "https://")
	if n.Err != nil {
		return []string{server, "-", "unreachable", "-", "-", view.FirstLine(view.Cause(n.Err))}
	}
	s, lag := n.Status, "-" // only the leader knows it
	if s.State == v1.StateLeader {
		lag = strconv.FormatUint(s.LagEntries, 10)
	}
	return []string{server, s.NodeID, s.State, s.LSN, lag, view.OrDash(s.Fence.State)}
}

// sorted returns the types in the order of the screen.
func (m *model) sorted() []v1.Queue {
	out := slices.Clone(m.now.types)
	slices.SortStableFunc(out, func(a, b v1.Queue) int {
		switch m.order {
		case byAvailable:
			return cmp.Compare(b.Unclaimed, a.Unclaimed)
		case byRunning:
			return cmp.Compare(b.InProgress, a.InProgress)
		case byDead:
			return cmp.Compare(b.Dead, a.Dead)
		case byName:
			return cmp.Compare(a.Type, b.Type)
		}
		return cmp.Compare(since(a.OldestAt), since(b.OldestAt))
	})
	return out
}

// since orders types without an available job last.
func since(oldest int64) int64 {
	if oldest == 0 {
		return 1<<63 - 1
	}
	return oldest
}

// foot is the line of keys.
func (m *model) foot() string {
	names := [panes]string{"types by " + orderNames[m.order], "workers", "nodes"}
	text := fmt.Sprintf("%s  %d of %d", names[m.pane], min(m.top+1, m.length()), m.length())
	if m.pane == paneTypes && m.now.more {
		text += " (more are not shown)"
	}
	if m.still {
		text += "  STOPPED"
	}
	return text + "  ·  tab pane  s order  space stop  q quit"
}
