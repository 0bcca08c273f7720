package bucket

import (
	"fmt"
	"maps"
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
	Effects  *restoreEffects `json:"effects,omitzero"`
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

	digest *digest
}

func pointOf(d *digest) statePoint {
	return statePoint{LSN: d.lsn.String(), Clock: d.clock, digest: d}
}

// restoreRow counts the jobs of one type and status. A row without a status, whose type
// is in brackets, counts another part of the state.
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
	Lineage         string `json:"lineage"`
	LSN             string `json:"lsn"`
	Epoch           uint64 `json:"epoch"`
	Jobs            int    `json:"jobs"`
	CheckpointBytes int64  `json:"baseBytes,omitzero"`
	Copy            string `json:"copy,omitzero"` // the key of the copy of the replaced document
}

// fill compares the states. newest is nil if it could not be read.
func (p *restoreReport) fill(restored, newest *digest) {
	p.Restored = pointOf(restored)
	if newest != nil {
		p.Newest = pointOf(newest)
	}
	if newest != nil && newest != restored {
		e := effects(restored, newest)
		p.Effects = &e
	}
	var there *digest
	if p.There != nil {
		there = p.There.digest
	}
	p.Rows = restoreRows(restored, newest, there)
}

// restoreRows returns the figures of up to three states, by type and status.
func restoreRows(restored, newest, there *digest) (rows []restoreRow) {
	names := make(map[string]bool)
	for _, d := range []*digest{restored, newest, there} {
		for name := range d.counts() {
			names[name] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		for _, status := range view.AllStatuses {
			s, _ := fsm.ParseStatus(status)
			row := restoreRow{name, status, newest.counts()[name].Of(s), restored.counts()[name].Of(s), there.counts()[name].Of(s)}
			if row.Newest+row.Restored+row.There > 0 {
				rows = append(rows, row)
			}
		}
	}
	for i, name := range besideNames {
		row := restoreRow{Type: name, Newest: newest.besides(i), Restored: restored.besides(i), There: there.besides(i)}
		if row.Newest+row.Restored+row.There > 0 {
			rows = append(rows, row)
		}
	}
	return rows
}

// counts and besides are empty for no state.
func (d *digest) counts() map[string]fsm.Counts {
	if d == nil {
		return nil
	}
	return d.types
}

func (d *digest) besides(i int) int {
	if d == nil {
		return 0
	}
	return d.beside[i]
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
	return g.Printf("%s", p.effectsText())
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

// effectsText describes the effects on jobs.
func (p *restoreReport) effectsText() string {
	if p.Effects == nil {
		return "\n"
	}
	e, total := p.Effects, 0
	var how []string
	for _, name := range append(slices.Clone(view.AllStatuses), removed) {
		if n := e.Again[name]; n > 0 {
			total += n
			how = append(how, fmt.Sprintf("%d %s", n, v1.StatusWord(name)))
		}
	}
	var b strings.Builder
	b.WriteString("\n")
	if total > 0 {
		fmt.Fprintf(&b, "%s not ended in the restored state, but %s ended since (%s): after the resume %s again.\n",
			jobsHave(total), have(total), strings.Join(how, ", "), runs(total))
	}
	if n := e.MissingWaiting + e.MissingEnded; n > 0 {
		fmt.Fprintf(&b, "%s been added since, and %s missing in the restored state; not ended: %d.\n",
			jobsHave(n), are(n), e.MissingWaiting)
	}
	if b.Len() > 1 {
		b.WriteString("\n")
	}
	return b.String()
}

func runs(n int) string {
	if n == 1 {
		return "it runs"
	}
	return "they run"
}

func jobsHave(n int) string {
	if n == 1 {
		return "1 job has"
	}
	return fmt.Sprintf("%d jobs have", n)
}

func have(n int) string {
	if n == 1 {
		return "has"
	}
	return "have"
}

func are(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}
