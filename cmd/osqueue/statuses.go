package main

import (
	"fmt"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
)

// allStatuses are the statuses of a job, in the order of its life.
var allStatuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress,
	v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled,
}

// words are statuses as people read them.
func words(statuses []string) []string {
	out := make([]string, len(statuses))
	for i, s := range statuses {
		out[i] = v1.StatusWord(s)
	}
	return out
}

// statusFlag is a flag whose value is a list of statuses. It takes the names of the
// wire, too, and holds them.
type statusFlag struct {
	to    *[]string
	known []string
}

// String implements pflag.Value.
func (f *statusFlag) String() string { return strings.Join(words(*f.to), ",") }

// Set implements pflag.Value.
func (f *statusFlag) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		status := v1.StatusOf(strings.TrimSpace(word))
		if status != v1.StatusAll && !slices.Contains(f.known, status) {
			return fmt.Errorf("%q is no status here: use %s, or all", word, strings.Join(words(f.known), ", "))
		}
		*f.to = append(*f.to, status)
	}
	return nil
}

// Type implements pflag.Value.
func (*statusFlag) Type() string { return "statuses" }
