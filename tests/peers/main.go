package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"osqueue/tests/measure"
)

// options are the settings of the command line.
type options struct {
	systems   []string
	cells     []string
	rounds    int
	duration  time.Duration // of each measurement
	limit     time.Duration // no trial begins later
	quiet     time.Duration // longest wait for a quiet machine, before each trial
	drainJobs int
	short     bool
	json      bool
	from      []string // outputs of earlier runs, to print instead of a run
}

func main() {
	o, err := parse(os.Args[1:])
	if err == nil {
		err = run(context.Background(), o, os.Stdout, os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	var o options
	var names, cellNames, from string
	f := flag.NewFlagSet("peers", flag.ContinueOnError)
	f.StringVar(&names, "systems", "", "systems to measure, comma separated (default: all): "+strings.Join(namesOf(systems), ", "))
	f.StringVar(&cellNames, "cells", "", "cells to measure, comma separated (default: all): "+strings.Join(namesOf(cells), ", "))
	f.IntVar(&o.rounds, "rounds", 3, "how often each cell is measured with each system, if the limit allows")
	f.DurationVar(&o.duration, "duration", 3*time.Second, "length of each measurement")
	f.DurationVar(&o.limit, "limit", 18*time.Minute, "no trial begins after this time")
	f.DurationVar(&o.quiet, "quiet", 5*time.Second, "longest wait for a quiet machine before each trial")
	f.IntVar(&o.drainJobs, "drain", 100_000, "jobs of the drain and of the measurement of memory")
	f.BoolVar(&o.short, "short", false, "run each cell for a moment, to see that it works: the figures mean nothing")
	f.BoolVar(&o.json, "json", false, "print all trials as JSON")
	f.StringVar(&from, "from", "", "print the tables of earlier runs with -json, from files, comma separated, and measure nothing")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if from != "" {
		o.from = strings.Split(from, ",")
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q: the command takes flags only", f.Arg(0))
	}
	if o.short {
		o.rounds, o.duration, o.limit, o.quiet, o.drainJobs = 1, 200*time.Millisecond, 50*time.Second, 0, 500
	}
	var err error
	if o.systems, err = chosen("--systems", names, namesOf(systems)); err != nil {
		return o, err
	}
	if o.cells, err = chosen("--cells", cellNames, namesOf(cells)); err != nil {
		return o, err
	}
	if o.rounds < 1 || o.duration <= 0 || o.limit <= 0 || o.quiet < 0 || o.drainJobs < 1 {
		return o, errors.New("--rounds, --duration, --limit and --drain must be positive, and --quiet must not be negative")
	}
	return o, nil
}

// chosen returns the names in a list, or all names if the list is empty.
func chosen(flag, list string, all []string) ([]string, error) {
	if list == "" {
		return all, nil
	}
	names := strings.Split(list, ",")
	for _, name := range names {
		if !slices.Contains(all, name) {
			return nil, fmt.Errorf("%s %q: use some of %s", flag, name, strings.Join(all, ", "))
		}
	}
	return names, nil
}

// run measures the chosen cells with the chosen systems and writes the report to out. It writes
// the progress to log.
func run(ctx context.Context, o options, out, log io.Writer) error {
	if len(o.from) > 0 {
		r := new(report)
		if err := r.merge(o.from); err != nil {
			return err
		}
		return r.writeTables(out)
	}
	r := &report{Machine: measure.ThisMachine(), Conditions: o.conditions()}
	var installed []system
	for _, s := range systems {
		if !slices.Contains(o.systems, s.name) {
			continue
		}
		if s.check != nil {
			if err := s.check(); err != nil {
				r.Skipped = append(r.Skipped, fmt.Sprintf("%s: %v", s.name, err))
				fmt.Fprintf(log, "skip %s: %v\n", s.name, err)
				continue
			}
		}
		installed = append(installed, s)
	}
	if len(installed) == 0 {
		return errors.New("no system can run: build NATS with make bin/peers/nats-server")
	}
	end := time.Now().Add(o.limit)
	if o.short {
		o.smoke(ctx, r, installed, end, log)
	} else {
		for round := range o.rounds {
			if !o.round(ctx, r, round, installed, end, log) {
				break
			}
		}
	}
	write := r.writeTables
	if o.json {
		write = r.writeJSON
	}
	if err := write(out); err != nil {
		return err
	}
	if o.short {
		return r.failure()
	}
	return nil
}

// smoke runs all cells with each system on the same servers, because their starts take most of
// the time of a short run.
func (o options) smoke(ctx context.Context, r *report, installed []system, end time.Time, log io.Writer) {
	for _, s := range installed {
		if time.Now().After(end) {
			r.Truncated = true
			fmt.Fprintf(log, "the limit of %v is over: %s is not measured\n", o.limit, s.name)
			continue
		}
		err := s.with(func(q queue) error {
			for _, c := range cells {
				if !slices.Contains(o.cells, c.name) {
					continue
				}
				result := result{Cell: c.name, System: s.name}
				if err := o.trial(ctx, c, q, &result); err != nil {
					result.Error = err.Error()
				}
				r.Trials = append(r.Trials, result)
				fmt.Fprintln(log, result)
			}
			return nil
		})
		if err != nil {
			r.Trials = append(r.Trials, result{Cell: "start", System: s.name, Error: err.Error()})
		}
	}
}

// round measures each cell once with each system. It returns false if the time is over.
func (o options) round(ctx context.Context, r *report, round int, installed []system, end time.Time, log io.Writer) bool {
	for _, c := range cells {
		if !slices.Contains(o.cells, c.name) {
			continue
		}
		order := slices.Clone(installed)
		if round%2 == 1 {
			slices.Reverse(order)
		}
		for _, s := range order {
			if time.Now().After(end) {
				r.Truncated = true
				fmt.Fprintf(log, "the limit of %v is over: the rest is not measured\n", o.limit)
				return false
			}
			result := o.attempt(ctx, c, s, round)
			r.Trials = append(r.Trials, result)
			fmt.Fprintf(log, "round %d  %v\n", round+1, result)
		}
	}
	return true
}

// conditions describes how the run was made.
func (o options) conditions() string {
	return fmt.Sprintf("up to %d rounds, %v a measurement, payloads of %d bytes, drain of %d jobs", o.rounds, o.duration, payloadBytes, o.drainJobs)
}
