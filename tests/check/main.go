package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"

	"osqueue/tests/history"
	"osqueue/tests/model"
)

// The exit codes.
const (
	exitOK         = 0
	exitViolation  = 1
	exitUnreadable = 2
	exitUndecided  = 3
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// options are the settings of the command line.
type options struct {
	files    []string
	timeline string
	job      string
	patience time.Duration
	most     int
}

func parse(args []string, errs io.Writer) (options, error) {
	var o options
	flags := pflag.NewFlagSet("osqueue-check", pflag.ContinueOnError)
	flags.SetOutput(errs)
	flags.StringVar(&o.timeline, "timeline", "", "draw the calls on a job into this HTML file")
	flags.StringVar(&o.job, "job", "", "the job that --timeline draws (default: the one of the first violation)")
	flags.DurationVar(&o.patience, "patience", time.Minute, "how long the search for a linear order may take, for each file")
	flags.IntVar(&o.most, "most", 10, "how many violations of a checker to print")
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.files = flags.Args()
	switch {
	case len(o.files) == 0:
		return o, errors.New("name the history files to check")
	case o.timeline != "" && len(o.files) != 1:
		return o, errors.New("--timeline takes one file")
	case o.job != "" && o.timeline == "":
		return o, errors.New("--job is for --timeline")
	}
	return o, nil
}

// run is the whole program without the exit.
func run(args []string, out, errs io.Writer) int {
	o, err := parse(args, errs)
	if errors.Is(err, pflag.ErrHelp) {
		return exitOK
	}
	if err != nil {
		fmt.Fprintln(errs, "osqueue-check:", err)
		return exitUnreadable
	}
	worst := exitOK
	for _, name := range o.files {
		code, err := check(name, o, out)
		if err != nil {
			fmt.Fprintf(errs, "osqueue-check: %s: %v\n", name, err)
			code = exitUnreadable
		}
		worst = worse(worst, code)
	}
	return worst
}

// worse returns the more severe of two exit codes.
func worse(a, b int) int {
	order := []int{exitOK, exitUndecided, exitViolation, exitUnreadable}
	return order[max(slices.Index(order, a), slices.Index(order, b))]
}

// check reads, checks and draws one file.
func check(name string, o options, out io.Writer) (code int, err error) {
	file, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer file.Close()
	h, err := history.Read(file)
	if err != nil {
		return 0, err
	}
	verdicts := model.Check(h, model.Options{Patience: o.patience})
	if err := report(out, name, h, verdicts, o.most); err != nil {
		return 0, err
	}
	if o.timeline != "" {
		if err := draw(o, h, verdicts); err != nil {
			return 0, err
		}
	}
	return exitOf(h, verdicts), nil
}

func exitOf(h *history.History, verdicts []model.Verdict) int {
	code := exitOK
	for _, v := range verdicts {
		switch v.Result {
		case model.Violated:
			code = worse(code, exitViolation)
		case model.TimedOut:
			code = worse(code, exitUndecided)
		}
	}
	if hit, all := model.Hits(h); hit == 0 && all > 0 {
		code = worse(code, exitUndecided)
	}
	return code
}

func draw(o options, h *history.History, verdicts []model.Verdict) (err error) {
	job := cmp.Or(o.job, jobOfViolation(h, verdicts))
	if job == "" {
		return errors.New("no violation names a job to draw: name one with --job")
	}
	file, err := os.Create(o.timeline)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	return model.Draw(file, h, job, model.Options{Patience: o.patience})
}

// jobOfViolation returns the job of the first operation that a violation names, or "".
func jobOfViolation(h *history.History, verdicts []model.Verdict) string {
	for _, v := range verdicts {
		for _, x := range v.Violations {
			for i := range h.Ops {
				op := &h.Ops[i]
				if !slices.Contains(x.Ops, op.ID) {
					continue
				}
				if op.Job != "" {
					return op.Job
				}
				if len(op.Jobs) > 0 {
					return op.Jobs[0].Job
				}
			}
		}
	}
	return ""
}

// report prints one file's table.
func report(out io.Writer, name string, h *history.History, verdicts []model.Verdict, most int) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	hit, all := model.Hits(h)
	fmt.Fprintf(w, "%s: %s seed %d, %d operations (%s), %d of %d faults hit\n",
		filepath.Base(name), h.Run.Name, h.Run.Seed, len(h.Ops), outcomes(h), hit, all)
	for _, f := range h.Faults {
		if !f.Hit {
			fmt.Fprintf(w, "  has not hit: %s %s: %s\n", f.Name, f.Target, f.Proof)
		}
	}
	for _, v := range verdicts {
		fmt.Fprintf(w, "  %s\t%s\t%d checked\t%s\n", v.Checker, v.Result, v.Checked, v.Note)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	for _, v := range verdicts {
		for i, x := range v.Violations {
			if i == most {
				fmt.Fprintf(out, "%s: and %d more\n", v.Checker, len(v.Violations)-most+v.More)
				break
			}
			fmt.Fprintf(out, "%s: %s (operations %s)\n", v.Checker, x.Text, strings.Trim(fmt.Sprint(x.Ops), "[]"))
		}
	}
	return nil
}

// outcomes counts the operations by outcome.
func outcomes(h *history.History) string {
	n := make(map[history.Outcome]int)
	for _, op := range h.Ops {
		n[op.Outcome]++
	}
	return fmt.Sprintf("%d ok, %d refused, %d unknown", n[history.OK], n[history.Refused], n[history.Unknown])
}
