package units

import (
	"fmt"
	"slices"
	"strings"

	v1 "osqueue/client/api/v1"
)

// AllStatuses are the statuses of a job, in the order of its life.
var AllStatuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress,
	v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled,
}

// StatusWords returns the names that people read for statuses of the wire.
func StatusWords(statuses []string) []string {
	out := make([]string, len(statuses))
	for i, s := range statuses {
		out[i] = v1.StatusWord(s)
	}
	return out
}

// Statuses is a flag whose value is a list of statuses. It takes the names of the
// wire, too, and holds them.
type Statuses struct {
	To    *[]string // the list that Set appends to
	Known []string  // the statuses that Set accepts
}

// String implements pflag.Value.
func (f *Statuses) String() string { return strings.Join(StatusWords(*f.To), ",") }

// Set implements pflag.Value.
func (f *Statuses) Set(text string) error {
	for word := range strings.SplitSeq(text, ",") {
		status := v1.StatusOf(strings.TrimSpace(word))
		if status != v1.StatusAll && !slices.Contains(f.Known, status) {
			return fmt.Errorf("%q is not a status for this command: use %s, or all", word, strings.Join(StatusWords(f.Known), ", "))
		}
		*f.To = append(*f.To, status)
	}
	return nil
}

// Type implements pflag.Value.
func (*Statuses) Type() string { return "statuses" }
