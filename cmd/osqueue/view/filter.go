package view

import (
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// BindStatuses binds --status with the statuses that the command knows.
func BindStatuses(cmd *cobra.Command, to *[]string, known []string) {
	names := StatusWords(known)
	cmd.Flags().Var(Value(to, "statuses", ParseStatuses(to, known), nil), "status", "only "+strings.Join(names, ", ")+", several with commas, or all")
	CompleteFlag(cmd, "status", append([]string{v1.StatusAll}, names...)...)
}

// Filter choose jobs, for lists and for changes.
type Filter struct {
	Status  []string
	Type    string
	Tags    []string // jobs have all of them
	Group   string
	Worker  string
	Batch   string
	Created struct{ After, Before Time }
	Limit   int
	All     bool
}

// Bind adds the flags; without a status flag where the statuses are given.
func (f *Filter) Bind(cmd *cobra.Command, withStatus bool) {
	flags := cmd.Flags()
	if withStatus {
		BindStatuses(cmd, &f.Status, AllStatuses)
	}
	flags.StringVar(&f.Type, "type", "", "only jobs of this type")
	flags.StringArrayVar(&f.Tags, "tag", nil, "only jobs with this tag; several tags: only jobs with all of them")
	flags.StringVar(&f.Group, "group", "", "only jobs of this group")
	flags.StringVar(&f.Worker, "worker", "", "only jobs whose last attempt this worker runs or ran")
	flags.StringVar(&f.Batch, "batch", "", "only jobs of this batch")
	TimeVar(flags, &f.Created.After, true, "created-after", "only jobs created at that time or later: 2026-12-24T18:00:00Z, '2026-12-24 18:00' (local time), or 90m (ago)")
	TimeVar(flags, &f.Created.Before, true, "created-before", "only jobs created before that time")
}

// Named reports whether the filter names more than statuses.
func (f *Filter) Named() bool {
	return len(f.Tags) > 0 || f.Type+f.Group+f.Worker+f.Batch+f.Created.After.Text+f.Created.Before.Text != ""
}

// List is the filter for a list.
func (f *Filter) List() client.ListOptions {
	return client.ListOptions{
		Statuses: f.Status, Type: f.Type, Tags: f.Tags, Group: f.Group, Worker: f.Worker, BatchID: f.Batch,
		CreatedFrom: f.Created.After.At, CreatedBefore: f.Created.Before.At,
	}
}

// Change is the filter for a change of the jobs of these statuses. They are
// always named, so that All is not needed. It holds one tag at most: for several,
// see changeRun.byTags.
func (f *Filter) Change(statuses []string) client.Filter {
	tag := ""
	if len(f.Tags) == 1 {
		tag = f.Tags[0]
	}
	return client.Filter{
		Statuses: statuses, Type: f.Type, Tag: tag, Group: f.Group, BatchID: f.Batch, Worker: f.Worker,
		CreatedFrom: f.Created.After.At, CreatedBefore: f.Created.Before.At, Limit: f.Limit,
	}
}
