package main

import (
	"encoding/json"
	"fmt"
	"io"

	"osqueue/tests/measure"
)

// figure is one line of the report.
type figure struct {
	Section string  `json:"section"`
	Name    string  `json:"name"`
	Value   float64 `json:"value"`
	Unit    string  `json:"unit"`
	Beside  string  `json:"beside,omitempty"` // the yardstick
	Aim     string  `json:"aim,omitempty"`
	Met     *bool   `json:"met,omitempty"`
	Cost    *cost   `json:"cost,omitempty"`
}

// report prints figures as they come in, or, as JSON, all at the end.
type report struct {
	out  io.Writer
	json bool
	results
}

// results are the contents of a report.
type results struct {
	Machine measure.Machine `json:"machine"`
	Figures []figure        `json:"figures"`
	// Repeated are sections whose leader lost its office: once for each time.
	Repeated []string `json:"repeated,omitempty"`
}

func newReport(out io.Writer, asJSON bool) *report {
	return &report{out: out, json: asJSON, results: results{Machine: measure.ThisMachine()}}
}

func (r *report) add(f figure) {
	r.Figures = append(r.Figures, f)
	if r.json {
		return
	}
	if len(r.Figures) == 1 {
		fmt.Fprintln(r.out, r.Machine)
		fmt.Fprintf(r.out, "%-11s %-36s %14s  %-34s %s\n", "section", "figure", "value", "beside", "aim")
	}
	verdict := f.Aim
	if f.Met != nil && *f.Met {
		verdict += "  met"
	} else if f.Met != nil {
		verdict += "  MISSED"
	}
	fmt.Fprintf(r.out, "%-11s %-36s %14s  %-34s %s\n", f.Section, f.Name, f.text(), f.Beside, verdict)
	if f.Cost != nil {
		fmt.Fprintf(r.out, "%-11s   took %v\n", "", f.Cost)
	}
}

// remark prints a text for readers only.
func (r *report) remark(text string) {
	if !r.json {
		fmt.Fprintln(r.out, text)
	}
}

// repeat reports that a section is tried again.
func (r *report) repeat(section string, why error) {
	r.Repeated = append(r.Repeated, section)
	r.remark(fmt.Sprintf("%-11s once more: %v", section, why))
}

// end prints how many aims were met, or the JSON.
func (r *report) end() {
	if r.json {
		enc := json.NewEncoder(r.out)
		enc.SetIndent("", "  ")
		_ = enc.Encode(r.results) // an error: standard output is closed
		return
	}
	aims, met := 0, 0
	for _, f := range r.Figures {
		if f.Met == nil {
			continue
		}
		aims++
		if *f.Met {
			met++
		}
	}
	fmt.Fprintf(r.out, "%d of %d aims met\n", met, aims)
}

func (f figure) text() string {
	if f.Value >= 1000 {
		return fmt.Sprintf("%.0f %s", f.Value, f.Unit)
	}
	return fmt.Sprintf("%.2f %s", f.Value, f.Unit)
}

// atMost and atLeast add an aim to a figure.
func (f figure) atMost(aim float64, unit string, got float64) figure {
	met := got <= aim
	f.Aim, f.Met = fmt.Sprintf("≤ %g %s", aim, unit), &met
	return f
}

func (f figure) atLeast(aim float64) figure {
	met := f.Value >= aim
	f.Aim, f.Met = fmt.Sprintf("≥ %g %s", aim, f.Unit), &met
	return f
}
