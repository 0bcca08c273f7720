package main

import (
	"strings"

	"github.com/spf13/cobra"

	v1 "osqueue/api/v1"
	"osqueue/client"
)

// allStatuses are the statuses of a job, in the order of its life.
var allStatuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress,
	v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled,
}

// filterFlags choose jobs, for lists and for changes.
type filterFlags struct {
	status  []string
	kind    string
	tag     string
	group   string
	worker  string
	batch   string
	created struct{ after, before timeFlag }
	limit   int
	all     bool
}

// bind adds the flags; without a status flag where the statuses are given.
func (f *filterFlags) bind(cmd *cobra.Command, withStatus bool) {
	flags := cmd.Flags()
	f.created.after.past, f.created.before.past = true, true
	if withStatus {
		flags.StringSliceVar(&f.status, "status", nil, "only "+strings.Join(allStatuses, ", ")+", several with commas, or all")
		complete(cmd, "status", append([]string{v1.StatusAll}, allStatuses...)...)
	}
	flags.StringVar(&f.kind, "type", "", "only jobs of this type")
	flags.StringVar(&f.tag, "tag", "", "only jobs with this tag")
	flags.StringVar(&f.group, "group", "", "only jobs of this group")
	flags.StringVar(&f.worker, "worker", "", "only jobs that this worker holds, or has ended")
	flags.StringVar(&f.batch, "batch", "", "only jobs of this batch")
	flags.Var(&f.created.after, "created-after", "only jobs created at that time or later: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m (ago)")
	flags.Var(&f.created.before, "created-before", "only jobs created before that time")
}

// named reports whether the filter names something beside statuses.
func (f *filterFlags) named() bool {
	return f.kind+f.tag+f.group+f.worker+f.batch+f.created.after.text+f.created.before.text != ""
}

// list is the filter for a list.
func (f *filterFlags) list() client.ListOptions {
	return client.ListOptions{
		Statuses: f.status, Type: f.kind, Tag: f.tag, Group: f.group, Worker: f.worker, BatchID: f.batch,
		CreatedFrom: f.created.after.at, CreatedBefore: f.created.before.at,
	}
}

// change is the filter for a change of the jobs of these statuses. They are
// always named, so that All is not needed.
func (f *filterFlags) change(statuses []string) client.Filter {
	return client.Filter{
		Statuses: statuses, Type: f.kind, Tag: f.tag, Group: f.group, BatchID: f.batch, Worker: f.worker,
		CreatedFrom: f.created.after.at, CreatedBefore: f.created.before.at, Limit: f.limit,
	}
}
