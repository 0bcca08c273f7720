package timeline

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"osqueue/tests/history"
	"osqueue/tests/model"
)

// Sizes, in pixels.
const (
	labelWidth = 90
	drawWidth  = 1500
	laneHeight = 16
	barHeight  = 12
	headHeight = 22
)

// Options select the part to draw.
type Options struct {
	// Around is the id of an operation: the window is around it, and the operations of its job
	// are marked. 0 means the whole run.
	Around int
	// Window is the time shown before and after the operation; 0 means 5 s.
	Window time.Duration
	// Verdicts are the results of the checkers: the operations of violations are marked.
	Verdicts []model.Verdict
}

const defaultWindow = 5 * time.Second

// bar is one operation, or several that overlap.
type bar struct {
	x, width float64
	op       *history.Op
	count    int
	outcome  history.Outcome
	marked   bool // of a violation
	same     bool // of the job that the window is about
	from, to history.Time
}

// band is a fault.
type band struct {
	x, width float64
	row      int
	fault    *history.Fault
}

// mark is a change of leader.
type mark struct {
	x    float64
	text string
}

// tick is a time on the axis.
type tick struct {
	x    float64
	text string
}

// lane is one client.
type lane struct {
	name string
	bars []*bar
}

// chart is everything to draw, with its position.
type chart struct {
	from, to  history.Time
	bands     []band
	rows      int // of bands
	marks     []mark
	ticks     []tick
	lanes     []lane
	ops, seen int
}

// layout computes the position of everything. It has no side effects.
func layout(h *history.History, opt Options) (*chart, error) {
	c := &chart{ops: len(h.Ops)}
	if err := c.span(h, opt); err != nil {
		return nil, err
	}
	c.placeFaults(h)
	c.placeLeaders(h)
	c.placeTicks()
	c.placeOps(h, opt)
	return c, nil
}

// span sets the window.
func (c *chart) span(h *history.History, opt Options) error {
	if opt.Around != 0 {
		i := slices.IndexFunc(h.Ops, func(op history.Op) bool { return op.ID == opt.Around })
		if i < 0 {
			return fmt.Errorf("there is no operation %d", opt.Around)
		}
		w := history.Time(cmp.Or(opt.Window, defaultWindow))
		c.from, c.to = max(0, h.Ops[i].Call-w), h.Ops[i].Return+w
		return nil
	}
	for i := range h.Ops {
		c.to = max(c.to, h.Ops[i].Return)
	}
	for i := range h.Faults {
		c.to = max(c.to, h.Faults[i].End)
	}
	c.to = max(c.to, c.from+1)
	return nil
}

// x returns the horizontal position of a time.
func (c *chart) x(t history.Time) float64 {
	t = min(max(t, c.from), c.to)
	return labelWidth + drawWidth*float64(t-c.from)/float64(c.to-c.from)
}

func (c *chart) shows(from, to history.Time) bool { return from <= c.to && to >= c.from }

// placeFaults puts overlapping faults into separate rows.
func (c *chart) placeFaults(h *history.History) {
	faults := make([]*history.Fault, 0, len(h.Faults))
	for i := range h.Faults {
		if c.shows(h.Faults[i].Begin, h.Faults[i].End) {
			faults = append(faults, &h.Faults[i])
		}
	}
	slices.SortStableFunc(faults, func(a, b *history.Fault) int { return cmp.Compare(a.Begin, b.Begin) })
	const perLetter, gap = 6, 4
	var ends []float64
	for _, f := range faults {
		x := c.x(f.Begin)
		width := max(c.x(f.End)-x, 2)
		row := slices.IndexFunc(ends, func(end float64) bool { return end <= x })
		if row < 0 {
			row = len(ends)
			ends = append(ends, 0)
		}
		ends[row] = x + max(width, float64(perLetter*len(f.Name))) + gap
		c.bands = append(c.bands, band{x, width, row, f})
	}
	c.rows = len(ends)
}

// placeLeaders finds the takeovers in the log, or else in the documents.
func (c *chart) placeLeaders(h *history.History) {
	seen := make(map[uint64]bool)
	add := func(at history.Time, epoch uint64, node string) {
		if epoch == 0 || seen[epoch] || !c.shows(at, at) {
			return
		}
		seen[epoch] = true
		c.marks = append(c.marks, mark{c.x(at), fmt.Sprintf("epoch %d: %s", epoch, node)})
	}
	for i := range h.Applied {
		if l := &h.Applied[i]; l.Kind == history.Broker && l.Code == "ok" {
			add(history.Time(l.Now-h.Run.Start.UnixMilli())*history.Millisecond, l.Epoch, l.Worker)
		}
	}
	for i := range h.Documents {
		if d := &h.Documents[i]; d.At > 0 {
			add(d.At, d.Epoch, d.Node)
		}
	}
}

// ticksMin is the minimum number of ticks to aim at.
const ticksMin = 8

func (c *chart) placeTicks() {
	step := history.Time(time.Millisecond)
	for i := 0; (c.to-c.from)/step > 2*ticksMin; i++ {
		step *= []history.Time{2, 5, 2}[i%3]
		if i%3 == 1 {
			step /= 2
		}
	}
	for t := (c.from + step - 1) / step * step; t <= c.to; t += step {
		c.ticks = append(c.ticks, tick{c.x(t), fmt.Sprintf("%.3f s", t.Seconds())})
	}
}

// placeOps puts operations into the lanes of their clients.
func (c *chart) placeOps(h *history.History, opt Options) {
	marked, job := marks(opt.Verdicts), ""
	for i := range h.Ops {
		if h.Ops[i].ID == opt.Around {
			job = h.Ops[i].Job
			if len(h.Ops[i].Jobs) > 0 {
				job = h.Ops[i].Jobs[0].Job
			}
		}
	}
	by := make(map[string][]*bar)
	for i := range h.Ops {
		op := &h.Ops[i]
		if _, is := by[op.Client]; !is {
			by[op.Client] = nil // every client has a lane
		}
		if !c.shows(op.Call, op.Return) {
			continue
		}
		c.seen++
		x := c.x(op.Call)
		by[op.Client] = append(by[op.Client], &bar{
			x: x, width: c.x(op.Return) - x, op: op, count: 1, outcome: op.Outcome, marked: marked[op.ID],
			same: job != "" && concerns(op, job), from: op.Call, to: op.Return,
		})
	}
	names := make([]string, 0, len(by))
	for name := range by {
		names = append(names, name)
	}
	slices.SortFunc(names, byNumber)
	for _, name := range names {
		c.lanes = append(c.lanes, lane{name, merged(by[name])})
	}
}

// byNumber sorts w2 before w10.
func byNumber(a, b string) int {
	na, nb := strings.TrimRight(a, "0123456789"), strings.TrimRight(b, "0123456789")
	return cmp.Or(cmp.Compare(na, nb), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
}

func concerns(op *history.Op, job string) bool {
	return op.Job == job || slices.ContainsFunc(op.Jobs, func(h history.Held) bool { return h.Job == job })
}

// marks returns the operations that violations name.
func marks(verdicts []model.Verdict) map[int]bool {
	all := make(map[int]bool)
	for _, v := range verdicts {
		for _, x := range v.Violations {
			for _, id := range x.Ops {
				all[id] = true
			}
		}
	}
	return all
}

// merged merges bars that cannot be distinguished.
func merged(bars []*bar) []*bar {
	slices.SortStableFunc(bars, func(a, b *bar) int { return cmp.Compare(a.x, b.x) })
	var out []*bar
	for _, b := range bars {
		if n := len(out); n > 0 && out[n-1].swallows(b) {
			last := out[n-1]
			last.count += b.count
			last.to = max(last.to, b.to)
			last.outcome = worse(last.outcome, b.outcome)
			last.width = max(last.width, b.x+b.width-last.x)
			continue
		}
		out = append(out, b)
	}
	return out
}

// swallows reports whether both bars are narrower than a pixel and less than a pixel apart.
func (b *bar) swallows(o *bar) bool {
	return !b.marked && !o.marked && !b.same && !o.same && o.width < 1 && b.width < 2 && o.x-b.x < 1
}

func worse(a, b history.Outcome) history.Outcome {
	for _, o := range []history.Outcome{history.Unknown, history.Refused} {
		if a == o || b == o {
			return o
		}
	}
	return history.OK
}
