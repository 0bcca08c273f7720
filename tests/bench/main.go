package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"
)

// options are the settings of the command line.
type options struct {
	only     []string
	base     string        // the other program of a comparison
	duration time.Duration // of each measurement under load
	span     time.Duration // for which the bucket's requests are counted
	deep     int           // jobs of the deep queue
	// drainJobs is the number of jobs that are drained.
	drainJobs int
	kills     int
	profile   string // directory for CPU profiles
	json      bool
	bucket    string
	serve     []string // further flags of the brokers

	// The test shortens these.
	rounds int           // see roundsDefault
	pairs  int           // see comparePairs
	rise   time.Duration // see riseDefault
}

// section is one measurement and its report.
type section struct {
	name string
	run  func(*bench) error
}

var sections = []section{
	{"disk", (*bench).disk},
	{"bare", (*bench).bare},
	{"sequential", (*bench).sequential},
	{"single", (*bench).single},
	{"batch", (*bench).batch},
	{"lifecycle", (*bench).lifecycle},
	{"drain", (*bench).drain},
	{"sdk", (*bench).sdk},
	{"security", (*bench).security},
	{"observe", (*bench).observe},
	{"worker", (*bench).worker},
	{"depth", (*bench).depth},
	{"checkpoint", (*bench).checkpoint},
	{"recovery", (*bench).recovery},
	{"failover", (*bench).failover},
	{"object", (*bench).object},
	{"cost", (*bench).bill},
}

func main() {
	if len(os.Args) > 1 && os.Args[1] == bareFollower {
		exit(runBareFollower(os.Args[2:]))
	}
	o, err := parse(os.Args[1:])
	if err != nil {
		exit(err)
	}
	exit(run(o, os.Stdout))
}

func exit(err error) {
	switch {
	case err == nil, errors.Is(err, flag.ErrHelp):
		os.Exit(0)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse(args []string) (options, error) {
	o := options{rounds: roundsDefault, pairs: comparePairs, rise: riseDefault}
	var only string
	var quick bool
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&only, "only", "", "sections to run, comma separated (default: all): "+strings.Join(sectionNames(), ", "))
	f.StringVar(&o.base, "base", "", "compare the program under test with this one, in turns, and measure nothing else")
	f.DurationVar(&o.duration, "duration", 5*time.Second, "length of each measurement under load")
	f.DurationVar(&o.span, "span", time.Minute, "how long the requests to the bucket are counted")
	f.IntVar(&o.deep, "deep", 1_000_000, "jobs of the deep queue")
	f.IntVar(&o.drainJobs, "drain", 100_000, "jobs of the queue that is drained")
	f.IntVar(&o.kills, "kills", 10, "how often the leader is killed")
	f.StringVar(&o.profile, "profile", "", "directory for CPU profiles of the leader and a follower, two a section")
	f.BoolVar(&quick, "quick", false, "a short run, to see that everything works: its figures say little")
	f.BoolVar(&o.json, "json", false, "print JSON")
	f.StringVar(&o.bucket, "bucket", "", "bucket URL (default: a directory)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if quick {
		o.beQuick(f)
	}
	if o.base != "" {
		if only != "" {
			return o, errors.New("--base measures rows of its own: leave out --only")
		}
		o.rounds = compareRounds
	}
	o.serve = f.Args()
	if len(o.serve) > 0 && !strings.HasPrefix(o.serve[0], "-") {
		return o, fmt.Errorf("unknown argument %q: what stands after the flags are flags for the brokers, behind a --", o.serve[0])
	}
	if only != "" {
		o.only = strings.Split(only, ",")
	}
	for _, name := range o.only {
		if !slices.Contains(sectionNames(), name) {
			return o, fmt.Errorf("there is no section %q: use %s", name, strings.Join(sectionNames(), ", "))
		}
	}
	if o.duration <= 0 || o.span <= 0 || o.deep <= shallow || o.drainJobs < 1 || o.kills < 1 {
		return o, fmt.Errorf("--duration, --span, --drain and --kills must be positive, --deep above %d", shallow)
	}
	return o, nil
}

// beQuick shortens the settings that were not given on the command line.
func (o *options) beQuick(given *flag.FlagSet) {
	short := options{duration: time.Second, span: 10 * time.Second, deep: 20_000, drainJobs: 5000, kills: 2}
	asked := make(map[string]bool)
	given.Visit(func(f *flag.Flag) { asked[f.Name] = true })
	if !asked["duration"] {
		o.duration = short.duration
	}
	if !asked["span"] {
		o.span = short.span
	}
	if !asked["deep"] {
		o.deep = short.deep
	}
	if !asked["drain"] {
		o.drainJobs = short.drainJobs
	}
	if !asked["kills"] {
		o.kills = short.kills
	}
}

func sectionNames() []string {
	names := make([]string, len(sections))
	for i, s := range sections {
		names[i] = s.name
	}
	return names
}

// run runs the requested sections, in order. If one fails, the others still run.
func run(o options, out io.Writer) error {
	b := &bench{options: o, report: newReport(out, o.json)}
	var errs []error
	run := sections
	if o.base != "" {
		run = []section{{"compare", func(b *bench) error { return b.compare(comparedRows()) }}}
	}
	for _, s := range run {
		if len(o.only) > 0 && !slices.Contains(o.only, s.name) {
			continue
		}
		if err := b.attempt(s); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", s.name, err))
		}
	}
	b.report.end()
	return errors.Join(errs...)
}

// attemptsMax is the number of attempts of a section whose leader loses its leadership
// meanwhile. That happens if other programs keep the machine busy: a leader that does not run
// for as long as its lease steps down.
const attemptsMax = 3

func (b *bench) attempt(s section) error {
	for n := 1; ; n++ {
		err := s.run(b)
		if n == attemptsMax || !errors.Is(err, errUnavailable) {
			return err
		}
		b.report.repeat(s.name, err)
	}
}

// bench is one run.
type bench struct {
	options
	report  *report
	failure error // of the step before, in sections with several
	// The bare raft commit, after it was measured.
	bareP50       time.Duration
	bareRate      float64 // commits a second
	bareBatchRate float64 // jobs a second
}
