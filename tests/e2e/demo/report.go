package main

import (
	"fmt"
	"os"
	"text/tabwriter"
	"time"
)

// report has the measured figures.
type report struct {
	workers    int
	submitTook time.Duration
	took       time.Duration // from the first submission to the last completion
	failover   failover
}

// print writes the figures.
func (r report) print(e *evidence) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 3, ' ', 0)
	row := func(name, format string, args ...any) { fmt.Fprintf(w, name+"\t"+format+"\n", args...) }
	fmt.Println()
	row("files", "%d", len(e.words))
	row("jobs submitted", "%d in %v (%.0f jobs/s)", len(e.submitted), ms(r.submitTook), perSecond(len(e.submitted), r.submitTook))
	row("jobs completed", "%d in %v by %d workers (%.0f jobs/s)", e.completed, ms(r.took), r.workers, perSecond(int(e.completed), r.took))
	row("leader killed", "%s by SIGKILL; %s led %v later", r.failover.killed, r.failover.next, ms(r.failover.took))
	row("longest pause", "%v without a completed job", time.Duration(longestPause(e.claims))*time.Millisecond)
	row("claims", "%d; jobs with more than one attempt: %d", len(e.claims), e.repeated())
	row("words by the jobs", "%d", e.jobSum())
	row("words by wc", "%d", e.wcSum())
	w.Flush()
}

// repeated counts the jobs that took more than one attempt.
func (e *evidence) repeated() (n int) {
	for _, job := range e.jobs {
		if job.Attempts > 1 {
			n++
		}
	}
	return n
}

func ms(d time.Duration) time.Duration { return d.Round(time.Millisecond) }

func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
