package timeline

import (
	"bufio"
	"fmt"
	"html"
	"io"
	"strings"

	"osqueue/tests/history"
)

// page writes the page and keeps the first error.
type page struct {
	out *bufio.Writer
	err error
}

func (p *page) add(format string, args ...any) {
	if p.err == nil {
		_, p.err = fmt.Fprintf(p.out, format+"\n", args...)
	}
}

func esc(s string) string { return html.EscapeString(strings.ToValidUTF8(s, "?")) }

// style has no characters that XML has to escape.
const style = `
body { font: 13px sans-serif; margin: 12px; }
svg text { font: 11px sans-serif; fill: #333; }
.ok { fill: #4c9f70; } .refused { fill: #8a8f98; } .unknown { fill: #e0a100; }
.marked { stroke: #d00000; stroke-width: 2; } .same { stroke: #1f5fbf; stroke-width: 1.5; }
.hit { fill: #d00000; } .missed { fill: #777; }
.axis { stroke: #ddd; } .leader { stroke: #6a3fb5; stroke-dasharray: 4 3; }
rect:hover { opacity: 0.6; }
table { border-collapse: collapse; margin-top: 12px; } td, th { padding: 2px 8px; border: 1px solid #ccc; text-align: left; }
.key { display: inline-block; width: 12px; height: 12px; margin: 0 4px 0 12px; }`

// Write draws the history as an HTML file.
func Write(w io.Writer, h *history.History, opt Options) error {
	c, err := layout(h, opt)
	if err != nil {
		return err
	}
	p := &page{out: bufio.NewWriter(w)}
	p.head(h, c)
	p.chart(c)
	p.verdicts(opt)
	p.add("</body></html>")
	if p.err != nil {
		return p.err
	}
	return p.out.Flush()
}

func (p *page) head(h *history.History, c *chart) {
	name := h.Run.Name
	if name == "" {
		name = "run"
	}
	p.add("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"/><title>%s</title><style>%s\n</style></head><body>", esc(name), style)
	p.add("<h1>%s</h1>", esc(name))
	p.add("<p>seed %d, %d nodes, %s, %s; %d of %d operations shown, from %.3f s to %.3f s</p>", h.Run.Seed, h.Run.Nodes,
		esc(h.Run.Store), h.Run.Start.Format("2006-01-02 15:04:05Z07:00"), c.seen, c.ops, c.from.Seconds(), c.to.Seconds())
	p.add("<p>")
	for _, k := range []struct{ colour, text string }{
		{"#4c9f70", "ok"},
		{"#8a8f98", "refused"},
		{"#e0a100", "unknown"},
		{"#f4b8b8", "fault"},
		{"#6a3fb5", "takeover"},
	} {
		p.add(`<span class="key" style="background:%s"></span>%s`, k.colour, k.text)
	}
	p.add("; red frame: of a violation, blue frame: of the job in question; one bar may stand for several operations</p>")
}

func (p *page) chart(c *chart) {
	faultsHeight := c.rows * laneHeight
	top := headHeight + faultsHeight
	height := top + len(c.lanes)*laneHeight + headHeight
	p.add(`<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d">`, labelWidth+drawWidth+10, height)
	for _, t := range c.ticks {
		p.add(`<line class="axis" x1="%.1f" x2="%.1f" y1="%d" y2="%d"/><text x="%.1f" y="%d">%s</text>`,
			t.x, t.x, headHeight, height, t.x, laneHeight-4, t.text)
	}
	for _, b := range c.bands {
		p.band(&b, height)
	}
	for _, m := range c.marks {
		p.add(`<line class="leader" x1="%.1f" x2="%.1f" y1="%d" y2="%d"><title>%s</title></line><text x="%.1f" y="%d">%s</text>`,
			m.x, m.x, headHeight, height, esc(m.text), m.x+2, height-6, esc(m.text))
	}
	for i, l := range c.lanes {
		y := top + i*laneHeight
		p.add(`<text x="2" y="%d">%s</text>`, y+barHeight-1, esc(l.name))
		for _, b := range l.bars {
			p.bar(b, y)
		}
	}
	p.add("</svg>")
}

func (p *page) band(b *band, height int) {
	class, verb := "hit", "hit"
	if !b.fault.Hit {
		class, verb = "missed", "has not hit"
	}
	y := headHeight + b.row*laneHeight
	title := fmt.Sprintf("%s %s, %.3f s to %.3f s, %s: %s", b.fault.Name, b.fault.Target, b.fault.Begin.Seconds(), b.fault.End.Seconds(), verb, b.fault.Proof)
	p.add(`<rect class="%s" fill-opacity="0.12" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`,
		class, b.x, y, b.width, height-y, esc(title))
	p.add(`<rect class="%s" fill-opacity="0.4" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect><text x="%.1f" y="%d">%s</text>`,
		class, b.x, y, b.width, barHeight, esc(title), b.x+2, y+barHeight-2, esc(b.fault.Name))
}

func (p *page) bar(b *bar, y int) {
	class := string(b.outcome)
	if b.marked {
		class += " marked"
	}
	if b.same {
		class += " same"
	}
	id, title := "", fmt.Sprintf("%d operations, %.3f s to %.3f s, the worst %s", b.count, b.from.Seconds(), b.to.Seconds(), b.outcome)
	if b.count == 1 {
		id, title = fmt.Sprintf(` id="op%d"`, b.op.ID), inWords(b.op)
	}
	p.add(`<rect%s class="%s" x="%.1f" y="%d" width="%.1f" height="%d"><title>%s</title></rect>`,
		id, class, b.x, y, max(b.width, 1), barHeight, esc(title))
}

// inWords describes the request and the answer of one operation.
func inWords(op *history.Op) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d %s %s: %s, %.3f s to %.3f s", op.ID, op.Client, op.Kind, op.Outcome, op.Call.Seconds(), op.Return.Seconds())
	for _, part := range []struct{ name, text string }{
		{"tag", op.Tag},
		{"job", op.Job},
		{"type", op.Type},
		{"status", op.Status},
		{"node", op.Node},
		{"key", op.Request},
		{"level", op.Committed},
		{"error", op.Error},
	} {
		if part.text != "" {
			fmt.Fprintf(&b, ", %s %s", part.name, part.text)
		}
	}
	if op.Token > 0 {
		fmt.Fprintf(&b, ", token %d", op.Token)
	}
	for _, held := range op.Jobs {
		fmt.Fprintf(&b, ", job %s token %d attempt %d", held.Job, held.Token, held.Attempt)
	}
	if !op.LSN.IsZero() {
		fmt.Fprintf(&b, ", LSN %s", op.LSN)
	}
	if !op.MinLSN.IsZero() {
		fmt.Fprintf(&b, ", at least %s", op.MinLSN)
	}
	return b.String()
}

// verdicts writes the results of the checkers, with links to the operations.
func (p *page) verdicts(opt Options) {
	if len(opt.Verdicts) == 0 {
		return
	}
	p.add("<table><tr><th>checker</th><th>result</th><th>checked</th><th></th></tr>")
	for _, v := range opt.Verdicts {
		p.add("<tr><td>%s</td><td>%s</td><td>%d</td><td>%s</td></tr>", esc(v.Checker), esc(string(v.Result)), v.Checked, esc(v.Note))
		for _, x := range v.Violations {
			p.add("<tr><td></td><td></td><td></td><td>%s", esc(x.Text))
			for _, id := range x.Ops {
				p.add(`<a href="#op%d">%d</a>`, id, id)
			}
			p.add("</td></tr>")
		}
	}
	p.add("</table>")
}
