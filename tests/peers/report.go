package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"osqueue/tests/measure"
)

// report is the outcome of a run.
type report struct {
	Machine    measure.Machine `json:"machine"`
	Conditions string          `json:"conditions"`
	Skipped    []string        `json:"skipped,omitempty"`
	Truncated  bool            `json:"truncated,omitempty"` // the limit was over before the last trial
	Trials     []result        `json:"trials"`
}

// figure is a kind of figure of a trial.
type figure struct {
	unit    string
	smaller bool // is better
	of      func(result) float64
}

var (
	rate = figure{unit: "jobs/s", of: func(r result) float64 { return r.Rate }}
	p50  = figure{unit: "ms", smaller: true, of: func(r result) float64 { return measure.Milliseconds(r.P50) }}
	p99  = figure{unit: "ms", smaller: true, of: func(r result) float64 { return measure.Milliseconds(r.P99) }}
	pss  = figure{unit: "MB", smaller: true, of: func(r result) float64 { return float64(r.PSS) / 1e6 }}

	// serverCPU is in seconds per 1000 jobs, which is milliseconds per job.
	serverCPU = figure{unit: "s", smaller: true, of: func(r result) float64 { return r.perOp(r.servers()) / 1000 }}
)

// ruler is the system that all others are compared with.
const ruler = "nats"

func (r *report) writeJSON(out io.Writer) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// row is a line of the table of figures.
type row struct {
	cell, title string
	figure      figure
}

// rows are the lines of the table of figures.
func rows() []row {
	var all []row
	for _, c := range cells {
		all = append(all, row{c.name, c.title, c.value})
		switch c.name {
		case "paced":
			all = append(all, row{c.name, "enqueue to worker at 500/s, p99", p99}, row{c.name, "server CPU per 1000 lifecycles at 500/s", serverCPU})
		case "life-64", "life-256":
			all = append(all, row{c.name, "server CPU per 1000 lifecycles, " + strings.TrimPrefix(c.name, "life-") + " workers", serverCPU})
		case "drain":
			all = append(all, row{c.name, "memory (PSS) of all servers, full queue", pss})
		}
	}
	return all
}

// writeTables writes the report as Markdown.
func (r *report) writeTables(out io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%v; %s.\n", r.Machine, r.Conditions)
	if r.Truncated {
		b.WriteString("The limit of the run ended it before its last round.\n")
	}
	for _, s := range r.Skipped {
		fmt.Fprintf(&b, "Not measured: %s.\n", s)
	}
	r.writeFigures(&b)
	r.writeCosts(&b)
	r.writeErrors(&b)
	_, err := io.WriteString(out, b.String())
	return err
}

// writeFigures writes the medians of all systems, and their ratios to those of the ruler.
func (r *report) writeFigures(b *strings.Builder) {
	used := r.systems()
	fmt.Fprintf(b, "\nMedian of the quieter half of the rounds; in parentheses the ratio to %s of the same run. A dash: it was\nnot measured.\n\n| cell | unit |", ruler)
	for _, s := range used {
		fmt.Fprintf(b, " %s |", s)
	}
	fmt.Fprintf(b, "\n|-|-|%s\n", strings.Repeat("-|", len(used)))
	for _, row := range rows() {
		if len(r.of(row.cell, "")) == 0 {
			continue
		}
		fmt.Fprintf(b, "| %s | %s |", row.title, row.figure.unit)
		base, known := r.median(row.cell, ruler, row.figure.of)
		for _, s := range used {
			v, ok := r.median(row.cell, s, row.figure.of)
			switch {
			case !ok:
				b.WriteString(" – |")
			case known && base > 0 && s != ruler:
				fmt.Fprintf(b, " %s (%.2f) |", number(v), v/base)
			default:
				fmt.Fprintf(b, " %s |", number(v))
			}
		}
		b.WriteString("\n")
	}
}

// writeCosts writes the processor time by role, the jobs of a log entry, the spread of the
// rounds, and the noise.
func (r *report) writeCosts(b *strings.Builder) {
	b.WriteString("\nProcessor time in µs per job, by role, of the same rounds. Spread is the difference between the\n" +
		"best and the worst of them in % of the median. Noise is the share of the processors that other\n" +
		"programs used during these trials, median and maximum.\n\n" +
		"| cell | system | leader or server | followers | client | jobs per entry | rounds | spread | noise |\n|-|-|-|-|-|-|-|-|-|\n")
	for _, c := range cells {
		for _, s := range r.systems() {
			trials := r.of(c.name, s)
			if len(trials) == 0 {
				continue
			}
			role := func(names ...string) string {
				v, _ := r.median(c.name, s, func(t result) float64 {
					var total time.Duration
					for _, n := range names {
						total += t.CPU[n]
					}
					return t.perOp(total)
				})
				if v == 0 {
					return "–"
				}
				return number(v)
			}
			perEntry, _ := r.median(c.name, s, func(t result) float64 { return float64(t.Ops) / float64(max(t.Entries, 1)) })
			entries := "–"
			if trials[0].Entries > 0 {
				entries = fmt.Sprintf("%.1f", perEntry)
			}
			fmt.Fprintf(b, "| %s | %s | %s | %s | %s | %s | %d | %s | %s |\n", c.name, s, role("leader", "server"),
				role("followers"), role(clientRole), entries, len(trials), spread(trials, c.value.of), noise(trials))
		}
	}
}

// writeErrors writes the errors of trials that failed.
func (r *report) writeErrors(b *strings.Builder) {
	var seen []string
	for _, t := range r.Trials {
		text := fmt.Sprintf("%s, %s: %s", t.Cell, t.System, t.Error)
		if t.Error == "" || slices.Contains(seen, text) {
			continue
		}
		seen = append(seen, text)
		fmt.Fprintf(b, "\nNot measured: %s.\n", text)
	}
}

// failure returns an error with the trials that failed.
func (r *report) failure() error {
	var errs []error
	for _, t := range r.Trials {
		if t.Error != "" {
			errs = append(errs, fmt.Errorf("%s, %s: %s", t.Cell, t.System, t.Error))
		}
	}
	return errors.Join(errs...)
}

// systems returns the systems that have trials, in the order of the report.
func (r *report) systems() []string {
	var used []string
	for _, s := range systems {
		if slices.ContainsFunc(r.Trials, func(t result) bool { return t.System == s.name }) {
			used = append(used, s.name)
		}
	}
	return used
}

// of returns the successful trials of a cell with a system, or with all systems for "". Of the
// trials with one system it returns the half, rounded up, during which the machine was quieter.
func (r *report) of(cell, system string) []result {
	var all []result
	for _, t := range r.Trials {
		if t.Cell == cell && (system == "" || t.System == system) && t.Error == "" {
			all = append(all, t)
		}
	}
	if system == "" {
		return all
	}
	slices.SortStableFunc(all, func(a, b result) int { return cmp.Compare(a.Noise, b.Noise) })
	return all[:(len(all)+1)/2]
}

// merge adds the trials of reports that runs with --json wrote.
func (r *report) merge(files []string) error {
	for _, name := range files {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		var other report
		if err := json.Unmarshal(data, &other); err != nil {
			return fmt.Errorf("%s is not the output of --json: %w", name, err)
		}
		if len(r.Trials) == 0 {
			r.Machine, r.Conditions = other.Machine, other.Conditions
		}
		r.Trials = append(r.Trials, other.Trials...)
		for _, s := range other.Skipped {
			if !slices.Contains(r.Skipped, s) {
				r.Skipped = append(r.Skipped, s)
			}
		}
	}
	return nil
}

// median returns the median of a figure over the rounds, and false if there are no rounds.
func (r *report) median(cell, system string, of func(result) float64) (float64, bool) {
	values := valuesOf(r.of(cell, system), of)
	if len(values) == 0 {
		return 0, false
	}
	return medianOf(values), true
}

func valuesOf(trials []result, of func(result) float64) []float64 {
	values := make([]float64, len(trials))
	for i, t := range trials {
		values[i] = of(t)
	}
	return values
}

// medianOf sorts the values and returns their median.
func medianOf(values []float64) float64 {
	slices.SortFunc(values, cmp.Compare[float64])
	middle := len(values) / 2
	if len(values)%2 == 1 {
		return values[middle]
	}
	return (values[middle-1] + values[middle]) / 2
}

// spread returns the difference between the best and the worst round.
func spread(trials []result, of func(result) float64) string {
	values := valuesOf(trials, of)
	middle := medianOf(values)
	if len(values) < 2 || middle == 0 {
		return "–"
	}
	return fmt.Sprintf("%.0f %%", 100*(slices.Max(values)-slices.Min(values))/middle)
}

// noise returns the median and the maximum of the noise.
func noise(trials []result) string {
	values := valuesOf(trials, func(t result) float64 { return 100 * t.Noise })
	return fmt.Sprintf("%.0f–%.0f %%", medianOf(values), slices.Max(values))
}

// number formats a figure with three significant digits or more.
func number(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
