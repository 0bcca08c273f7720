package main

import (
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/units"
)

// bindStatuses binds --status with the statuses that the command knows.
func bindStatuses(cmd *cobra.Command, to *[]string, known []string) {
	names := units.StatusWords(known)
	cmd.Flags().Var(&units.Statuses{To: to, Known: known}, "status", "only "+strings.Join(names, ", ")+", several with commas, or all")
	complete(cmd, "status", append([]string{v1.StatusAll}, names...)...)
}

// filterFlags choose jobs, for lists and for changes.
type filterFlags struct {
	status  []string
	kind    string
	tags    []string // jobs have all of them
	group   string
	worker  string
	batch   string
	created struct{ after, before units.Time }
	limit   int
	all     bool
}

// bind adds the flags; without a status flag where the statuses are given.
func (f *filterFlags) bind(cmd *cobra.Command, withStatus bool) {
	flags := cmd.Flags()
	f.created.after.Past, f.created.before.Past = true, true
	if withStatus {
		bindStatuses(cmd, &f.status, units.AllStatuses)
	}
	flags.StringVar(&f.kind, "type", "", "only jobs of this type")
	flags.StringArrayVar(&f.tags, "tag", nil, "only jobs with this tag; several tags: only jobs with all of them")
	flags.StringVar(&f.group, "group", "", "only jobs of this group")
	flags.StringVar(&f.worker, "worker", "", "only jobs that this worker holds, or has ended")
	flags.StringVar(&f.batch, "batch", "", "only jobs of this batch")
	flags.Var(&f.created.after, "created-after", "only jobs created at that time or later: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m (ago)")
	flags.Var(&f.created.before, "created-before", "only jobs created before that time")
}

// named reports whether the filter names something beside statuses.
func (f *filterFlags) named() bool {
	return len(f.tags) > 0 || f.kind+f.group+f.worker+f.batch+f.created.after.Text+f.created.before.Text != ""
}

// list is the filter for a list.
func (f *filterFlags) list() client.ListOptions {
	return client.ListOptions{
		Statuses: f.status, Type: f.kind, Tags: f.tags, Group: f.group, Worker: f.worker, BatchID: f.batch,
		CreatedFrom: f.created.after.At, CreatedBefore: f.created.before.At,
	}
}

// change is the filter for a change of the jobs of these statuses. They are
// always named, so that All is not needed. It holds one tag at most: for several,
// see changeRun.byTags.
func (f *filterFlags) change(statuses []string) client.Filter {
	tag := ""
	if len(f.tags) == 1 {
		tag = f.tags[0]
	}
	return client.Filter{
		Statuses: statuses, Type: f.kind, Tag: tag, Group: f.group, BatchID: f.batch, Worker: f.worker,
		CreatedFrom: f.created.after.At, CreatedBefore: f.created.before.At, Limit: f.limit,
	}
}
