package bucket

import (
	"errors"
	"fmt"
	"strings"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// verifyReport is the report of verify.
type verifyReport struct {
	Document string `json:"document"`
	LSN      string `json:"lsn"`
	// Unreadable is true if the document cannot be read: neither its LSN nor its
	// references are known.
	Unreadable bool `json:"unreadable,omitzero"`

	Checkpoints    int    `json:"checkpoints"` // checked objects, as the following fields
	Segments       int    `json:"segments"`
	SegmentIndexes int    `json:"segmentIndexes"`
	Entries        uint64 `json:"entries"`
	Bytes          int64  `json:"bytes"`  // of the segments
	Strays         int    `json:"strays"` // unreferenced objects
	Gone           int    `json:"gone"`   // objects that were collected during the check
	OK             bool   `json:"ok"`

	Spans    []storedSpan   `json:"spans"` // the states that can be restored
	Defects  []defect       `json:"defects"`
	Repaired *repairOutcome `json:"repaired,omitzero"`
}

// defect is one defect of the stored state.
type defect struct {
	Key         string `json:"key"`
	Object      string `json:"object,omitzero"` // the kind of object
	Problem     string `json:"problem"`
	Consequence string `json:"consequence"`
}

// repairOutcome is the result of a repair.
type repairOutcome struct {
	Written bool           `json:"written"`
	Was     string         `json:"was,omitzero"` // LSNs
	Is      string         `json:"is,omitzero"`
	Jobs    map[string]int `json:"jobs,omitzero"`
	Copy    string         `json:"copy,omitzero"`
}

// reportOf returns the report of a check.
func reportOf(r *archive.Report) *verifyReport {
	out := &verifyReport{
		Document: r.Key, LSN: r.LSN.String(), Checkpoints: r.Checkpoints,
		Segments: r.Segments, SegmentIndexes: r.SegmentIndexes,
		Entries: r.Entries, Bytes: r.Bytes, Strays: r.Strays, Gone: len(r.Gone), OK: r.OK(),
		Spans: []storedSpan{}, Defects: []defect{},
	}
	for _, s := range r.Spans {
		out.Spans = append(out.Spans, spanOf(s))
	}
	for _, p := range r.Problems {
		out.Unreadable = out.Unreadable || p.Key == r.Key && r.LSN.IsZero() && errors.Is(p.Err, document.ErrFormat)
		out.Defects = append(out.Defects, defect{
			Key: p.Key, Object: archive.Describe(p.Key), Problem: p.Err.Error(), Consequence: consequence(r, &p),
		})
	}
	return out
}

// consequence describes the effect of a problem.
func consequence(r *archive.Report, p *archive.Problem) string {
	switch {
	case !p.Named:
		return "Earlier states that need it cannot be restored. The newest one does not need it."
	case p.Key == r.Key:
		return "A cluster that has lost its nodes cannot recover from this document."
	}
	return "The newest state needs it: a cluster that has lost its nodes cannot recover."
}

func (p *verifyReport) repaired(r *archive.Repaired) {
	p.Unreadable = p.Unreadable || r.From.IsZero() && !r.Before.OK()
	out := &repairOutcome{Written: r.Written}
	if r.Written {
		out.Is, out.Copy, out.Jobs = r.To.String(), r.Copy, make(map[string]int)
		if !r.From.IsZero() {
			out.Was = r.From.String()
		}
		for status, n := range r.Counts {
			if n > 0 {
				out.Jobs[fsm.Status(status).String()] = n
			}
		}
	}
	p.Repaired = out
}

// print prints the report of the bucket at url.
func (p *verifyReport) print(g *view.Globals, url string) error {
	if g.JSON {
		return g.WriteJSON(p)
	}
	rows := [][]string{
		{"document", p.documentText()},
		{"checked", fmt.Sprintf("%s, %s (%s), %s; %s in all", view.Plural(p.Checkpoints, "checkpoint"), view.Plural(p.Segments, "segment"),
			view.BytesText(p.Bytes), view.Plural(p.SegmentIndexes, "segment index file"), view.Plural(p.Entries, "entry"))},
	}
	if p.Strays+p.Gone > 0 {
		rows = append(rows, []string{"other", fmt.Sprintf("%s without a reference, %d deleted during the check", view.Plural(p.Strays, "object"), p.Gone)})
	}
	for _, s := range p.Spans {
		rows = append(rows, []string{"restorable", s.text()})
	}
	if err := g.Table(rows); err != nil {
		return err
	}
	return g.Printf("\n%s%s", p.defectsText(), p.outcomeText(url))
}

// documentText describes the document.
func (p *verifyReport) documentText() string {
	if p.Unreadable {
		return p.Document + ", which cannot be read"
	}
	lsn := "LSN " + p.LSN
	if p.LSN == view.NoLSN {
		lsn = "of the legacy broker"
	}
	return p.Document + ", " + lsn
}

// defectsMost bounds the number of defects that are shown.
const defectsMost = 50

func (p *verifyReport) defectsText() string {
	if p.OK {
		return "No defects.\n"
	}
	var b strings.Builder
	for _, d := range p.Defects[:min(len(p.Defects), defectsMost)] {
		b.WriteString(d.Key)
		if d.Object != "" {
			b.WriteString("\n  " + d.Object)
		}
		fmt.Fprintf(&b, "\n  %s\n  %s\n", d.Problem, d.Consequence)
	}
	if n := len(p.Defects) - defectsMost; n > 0 {
		fmt.Fprintf(&b, "and %d more; --json has all of them\n", n)
	}
	fmt.Fprintf(&b, "\n%s.\n", view.Plural(len(p.Defects), "defect"))
	return b.String()
}

// outcomeText describes the repair, or the next step.
func (p *verifyReport) outcomeText(url string) string {
	switch r := p.Repaired; {
	case p.OK:
		return ""
	case r == nil:
		return p.adviceText(url)
	case r.Written:
		return r.text(p)
	}
	return "Nothing was repaired.\n"
}

// adviceText describes the next step for defects.
func (p *verifyReport) adviceText(url string) string {
	url = view.ShellWord(url)
	var b strings.Builder
	if p.Unreadable {
		b.WriteString("No other object was checked, because the document cannot be read; a repair checks them.\n")
	}
	b.WriteString("If a node still has its disk, do not repair: start the nodes, which have the newest state. Their leader replaces\n" +
		"what is missing; if the document cannot be read, move it away first, and the leader writes it again.\n" +
		"If all disks are lost, replace the document by the newest complete state in the bucket:\n")
	fmt.Fprintf(&b, "  osqueue verify %s --repair\n", url)
	if n := len(p.Spans); n > 0 {
		fmt.Fprintf(&b, "To restore a state as a new queue, and not change this one:\n  osqueue restore --from %s --at %s --to BUCKET-URL\n",
			url, p.Spans[n-1].To)
	}
	return b.String()
}

func (r *repairOutcome) text(p *verifyReport) string {
	var jobs []string
	for _, status := range view.AllStatuses {
		if n := r.Jobs[status]; n > 0 {
			jobs = append(jobs, fmt.Sprintf("%d %s", n, v1.StatusWord(status)))
		}
	}
	if jobs == nil {
		jobs = []string{"none"}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Repaired: the state of %s is %s now. Jobs: %s.\n", p.Document, r.Is, strings.Join(jobs, ", "))
	switch {
	case r.Was == "":
		b.WriteString("The old document did not show its LSN: later changes are lost, unless a node has them.\n")
	case r.Was != r.Is:
		fmt.Fprintf(&b, "It was %s: changes after %s are lost, unless a node has them.\n", r.Was, r.Is)
	default:
		b.WriteString("The newest state is complete.\n")
	}
	if r.Copy != "" {
		fmt.Fprintf(&b, "The old document is kept as %s.\n", r.Copy)
	}
	b.WriteString("Nodes that have a newer state on their disks keep it when they start.\n")
	return b.String()
}
