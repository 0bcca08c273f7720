package bucket

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
)

func newInspectCommand(g *view.Globals) *cobra.Command {
	in := inspection{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "inspect BUCKET-URL [JOB-ID]",
		Short: "Read the queue from a bucket, without a cluster",
		Long: `Shows the queue as the bucket has it. The command writes nothing and needs no node: it
works while the whole cluster is down. The state is as old as the last flush; the first
lines, or a line on stderr, show its age.

With a job id it prints that job, with --list a part of the state: queues (the
types with settings), crons, batches, workers, hooks (without their secrets), types
(statistics of each type: totals, mean times, and the last hour), jobs, or blocked
(jobs that wait for others). The filters of jobs are those of osqueue job ls: without
--status it lists the jobs that have not ended. With --json each line is one item.

--list history lists the states that osqueue restore can rebuild, as ranges without a
gap, and their size in the bucket. --at shows an earlier state instead of the newest.

` + view.ExitHelp,
		Example: `  osqueue inspect file:///srv/osqueue
  osqueue inspect file:///srv/osqueue --list crons
  osqueue inspect file:///srv/osqueue --list jobs --status dead --type mail --at 2h
  osqueue inspect file:///srv/osqueue --list history
  osqueue inspect s3://jobs/prod?region=eu-central-1 0190a8c2-… --json`,
		Args: view.UsageArgs(cobra.RangeArgs(1, 2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.bucket, in.now = args[0], time.Now()
			if len(args) == 2 {
				in.id = args[1]
			}
			if err := in.check(); err != nil {
				return err
			}
			return in.run(cmd.Context(), in.show)
		},
	}
	in.bind(cmd)
	return cmd
}

func (in *inspection) bind(cmd *cobra.Command) {
	in.offline.bind(cmd)
	in.filter.Bind(cmd, true)
	flags := cmd.Flags()
	flags.StringVar(&in.list, "list", "", "list "+strings.Join(inspectListNames, ", "))
	flags.Var(&in.at, "at", "an earlier state: "+units.AtHelp)
	flags.IntVar(&in.filter.Limit, "limit", 100, "maximum number of items to list")
	flags.BoolVar(&in.filter.All, "all", false, "list without limit")
	view.CompleteFlag(cmd, "list", inspectListNames...)
}

// check finds what cannot be meant.
func (in *inspection) check() error {
	ofJobs := in.list == "jobs" || in.list == "blocked"
	switch {
	case in.list != "" && (in.id != "" || inspectLists[in.list] == nil):
		return view.Usagef("--list %q: use %s, and no job id", in.list, strings.Join(inspectListNames, ", "))
	case in.list == "history" && in.at.text != "":
		return view.Usagef("--list history covers all times: remove --at")
	case !ofJobs && (in.filter.Named() || len(in.filter.Status) > 0):
		return view.Usagef("--status, --type and the other filters of jobs need --list jobs")
	case in.filter.Limit < 1:
		return view.Usagef("--limit %d: must be at least 1; for no limit give --all", in.filter.Limit)
	case in.list == "blocked" && len(in.filter.Status) > 0:
		return view.Usagef("--list blocked lists the jobs of that status; for others use --list jobs")
	}
	_, err := chosenStatuses(&in.filter)
	return err
}

// show reads what is asked for, and prints it.
func (in *inspection) show(ctx context.Context, b *buckets) error {
	bucket, err := b.read(ctx, in.bucket)
	if err != nil {
		return err
	}
	if in.list == "history" {
		return in.showHistory(ctx, bucket)
	}
	s, err := readState(ctx, bucket, in.bucket, &in.at)
	if err != nil {
		return err
	}
	if in.id == "" && in.list == "" {
		return showState(in.g, s, in.now)
	}
	stamp := s.stamp(in.now)
	if err := view.WritePlain(in.g.Err, stamp.text(in.now)); err != nil {
		return err
	}
	if in.id != "" {
		return in.showJob(s)
	}
	return inspectLists[in.list](in, s)
}

func (in *inspection) showJob(s *storedState) error {
	j := s.machine.Job(in.id)
	if j == nil {
		return fmt.Errorf("job %q is not in the state; it may be newer than the last flush, or past its retention", in.id)
	}
	if !in.g.JSON {
		return view.ShowJob(in.g, jobOfState(j), false)
	}
	return in.g.WriteJSON(struct {
		v1.Job
		State stateStamp `json:"state"`
	}{jobOfState(j), s.stamp(in.now)})
}
