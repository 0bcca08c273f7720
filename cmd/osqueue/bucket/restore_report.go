package bucket

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
)

// restoreReport is the report of restore: the differences before it writes, and the
// document that it wrote.
type restoreReport struct {
	From     string          `json:"from"`
	To       string          `json:"to,omitzero"`
	InPlace  bool            `json:"inPlace,omitzero"`
	Newest   statePoint      `json:"newest"`
	Restored statePoint      `json:"restored"`
	There    *statePoint     `json:"there,omitzero"` // absent: nothing is there, or it is that of from
	Rows     []restoreRow    `json:"rows"`
	DryRun   bool            `json:"dryRun,omitzero"`
	Refused  string          `json:"refused,omitzero"` // why restore would refuse to write
	Paused   pausedNames     `json:"paused"`
	Written  *restoreWritten `json:"written,omitzero"`
}

// statePoint describes a state, or the error that prevents reading it.
type statePoint struct {
	LSN   string `json:"lsn,omitzero"`
	Clock int64  `json:"clock,omitzero"` // the queue's time, in ms
	Error string `json:"error,omitzero"`

	figures map[restoreFigure]int
}

// restoreFigure names what a row counts: the jobs of one type and status, or without a status another part of
// the state, whose name is in brackets.
type restoreFigure struct{ name, status string }

var everyStatus = []fsm.Status{fsm.Completed, fsm.Dead, fsm.Cancelled, fsm.Expired, fsm.Blocked, fsm.Scheduled, fsm.Unclaimed, fsm.InProgress}

// pointOf describes a state, so that two can be compared without both in memory.
func pointOf(m *fsm.Machine) statePoint {
	v := m.View()
	p := statePoint{LSN: v.LSN().String(), Clock: v.Now(), figures: make(map[restoreFigure]int)}
	for name, t := range m.Types {
		for _, s := range everyStatus {
			p.figures[restoreFigure{name, s.String()}] = t.Counts.Of(s)
		}
	}
	count := func(name string, n int) { p.figures[restoreFigure{name: name}] += n }
	count("(schedules)", v.CronCount())
	count("(workers)", v.WorkerCount())
	for range v.Queues {
		count("(types with settings)", 1)
	}
	for range v.Batches("") {
		count("(batches)", 1)
	}
	return p
}

// restoreRow has a figure of each state.
type restoreRow struct {
	Type     string `json:"type"`
	Status   string `json:"status,omitzero"`
	Newest   int    `json:"newest"`
	Restored int    `json:"restored"`
	There    int    `json:"there,omitzero"`
}

func (r *restoreRow) change() int { return r.Restored - r.Newest }

// pausedNames lists the types and schedules that the restore has paused.
type pausedNames struct {
	Types []string `json:"types,omitzero"`
	Crons []string `json:"crons,omitzero"`
}

// restoreWritten is the document that was written.
type restoreWritten struct {
	Lineage         string   `json:"lineage"`
	LSN             string   `json:"lsn"`
	Epoch           uint64   `json:"epoch"`
	Jobs            int      `json:"jobs"`
	CheckpointBytes int64    `json:"baseBytes,omitzero"`
	Artefacts       int      `json:"artefacts,omitzero"` // that were copied
	Missing         []string `json:"missing,omitzero"`   // artefacts of jobs that the source does not have
	Copy            string   `json:"copy,omitzero"`      // the key of the copy of the replaced document
}

// restoreRows returns the figures of up to three states, by type and status, and then those of other parts.
func restoreRows(restored, newest, there *statePoint) (rows []restoreRow) {
	all := make(map[restoreFigure]*restoreRow)
	add := func(p *statePoint, to func(*restoreRow) *int) {
		if p == nil {
			return
		}
		for figure, n := range p.figures {
			row := all[figure]
			if n > 0 && row == nil {
				row = &restoreRow{Type: figure.name, Status: figure.status}
				all[figure] = row
			}
			if n > 0 {
				*to(row) = n
			}
		}
	}
	add(newest, func(r *restoreRow) *int { return &r.Newest })
	add(restored, func(r *restoreRow) *int { return &r.Restored })
	add(there, func(r *restoreRow) *int { return &r.There })
	for _, row := range all {
		rows = append(rows, *row)
	}
	place := func(r restoreRow) int { return slices.Index(view.AllStatuses, r.Status) }
	slices.SortFunc(rows, func(a, b restoreRow) int {
		if (a.Status == "") != (b.Status == "") {
			return cmp.Compare(b.Status, a.Status)
		}
		return cmp.Or(cmp.Compare(a.Type, b.Type), cmp.Compare(place(a), place(b)))
	})
	return rows
}

// show prints the differences.
func (p *restoreReport) show(g *view.Globals, now time.Time) error {
	head := [][]string{
		{"from", p.From, p.Newest.text(now)},
		{"restored", "", p.Restored.text(now)},
	}
	switch {
	case p.InPlace:
		head = append(head, []string{"to", p.To, "in place"})
	case p.There != nil:
		head = append(head, []string{"to", p.To, p.There.text(now)})
	case p.To != "":
		head = append(head, []string{"to", p.To, "empty"})
	}
	if err := g.Table(head); err != nil {
		return err
	}
	if err := g.Printf("\n"); err != nil {
		return err
	}
	if err := g.Table(p.tableRows()); err != nil {
		return err
	}
	return g.Printf("\n")
}

func (s *statePoint) text(now time.Time) string {
	if s.Error != "" {
		return "cannot be read: " + view.FirstLine(s.Error)
	}
	if s.Clock == 0 {
		return s.LSN + ", the beginning: empty"
	}
	return s.LSN + " of " + pointText(s.Clock, now)
}

// rowsMost bounds the number of rows that are shown. If there are more, rows without a
// change are left out first.
const rowsMost = 40

func (p *restoreReport) tableRows() [][]string {
	rows, left := p.Rows, 0
	if len(rows) > rowsMost {
		rows = slices.DeleteFunc(slices.Clone(rows), func(r restoreRow) bool { return r.change() == 0 && r.There == 0 })
		rows = rows[:min(len(rows), rowsMost)]
		left = len(p.Rows) - len(rows)
	}
	columns := []string{"TYPE", "STATE", "NEWEST", "RESTORED", "CHANGE"}
	if p.There != nil {
		columns = append(columns, "AT --to")
	}
	out := [][]string{columns}
	for i := range rows {
		out = append(out, p.tableRow(&rows[i]))
	}
	if left > 0 {
		out = append(out, []string{fmt.Sprintf("… and %d more rows; --json has all of them", left)})
	}
	return out
}

func (p *restoreReport) tableRow(r *restoreRow) []string {
	newest, change := strconv.Itoa(r.Newest), "-"
	switch {
	case p.Newest.Error != "":
		newest = "?"
	case r.change() != 0:
		change = fmt.Sprintf("%+d", r.change())
	}
	row := []string{view.OrDash(r.Type), view.OrDash(v1.StatusWord(r.Status)), newest, strconv.Itoa(r.Restored), change}
	if p.There != nil {
		row = append(row, strconv.Itoa(r.There))
	}
	return row
}

// namesMost bounds the number of names in a printed command.
const namesMost = 12

// nextSteps describes the result and the next steps of the user.
func (r *restoration) nextSteps(p *restoreReport) string {
	var b strings.Builder
	w := p.Written
	if w == nil {
		b.WriteString("Nothing was written: this is a dry run.\n")
		if p.Refused != "" {
			fmt.Fprintf(&b, "Without --dry-run it would be refused: %s.\n", p.Refused)
		}
		return b.String()
	}
	fmt.Fprintf(&b, "Written to %s: %d jobs, LSN %s, lineage %s.\n", r.to, w.Jobs, w.LSN, w.Lineage)
	if w.Copy != "" {
		fmt.Fprintf(&b, "The previous document is kept as %s; to restore it:\n  osqueue restore --from %s --document %s --to %s --replace\n",
			w.Copy, view.ShellWord(r.to), w.Copy, view.ShellWord(r.to))
	}
	b.WriteString("\n" + r.startText())
	if r.resume {
		b.WriteString("Types and schedules are not paused: jobs run as soon as a cluster has started.\n")
		return b.String()
	}
	b.WriteString(resumeText(&p.Paused))
	return b.String()
}

// startText describes how to start a cluster on the written document.
func (r *restoration) startText() string {
	switch {
	case r.branch:
		return fmt.Sprintf("Try it on this machine:\n  osqueue dev --bucket %s\n"+
			"or start nodes with empty data directories:\n  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to), view.ShellWord(r.to))
	case r.inPlace() || r.replace:
		return fmt.Sprintf("Nodes with the previous state refuse the new document. Move all of their data directories away,\n"+
			"and start them with empty ones on the same bucket:\n  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to))
	}
	return fmt.Sprintf("Start a cluster on it, with empty data directories; nodes that have a state refuse the document:\n"+
		"  osqueue serve --bucket %s --data EMPTY-DIRECTORY …\n\n", view.ShellWord(r.to))
}

// resumeText describes how to end the pause.
func resumeText(p *pausedNames) string {
	if len(p.Types)+len(p.Crons) == 0 {
		return "The queue has no type or schedule to pause.\n"
	}
	var b strings.Builder
	b.WriteString("All types and schedules are paused. Check the queue with osqueue job ls and osqueue cron ls, then run:\n")
	resumeCommand(&b, "queue", p.Types)
	resumeCommand(&b, "cron", p.Crons)
	b.WriteString("Types and schedules that were paused before stay paused.\n")
	return b.String()
}

func resumeCommand(b *strings.Builder, kind string, names []string) {
	switch n := len(names); {
	case n > namesMost:
		fmt.Fprintf(b, "  osqueue %s resume %s …\n    (%d names; --json has all of them)\n", kind, view.ShellWords(names[:namesMost]), n)
	case n > 0:
		fmt.Fprintf(b, "  osqueue %s resume %s\n", kind, view.ShellWords(names))
	}
}
