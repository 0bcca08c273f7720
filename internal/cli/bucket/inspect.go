package bucket

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/view"
)

func newInspectCommand(g *view.Globals) *cobra.Command {
	in := inspection{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "inspect BUCKET-URL [JOB-ID]",
		Short: "Read the queue from a bucket, without a cluster",
		Long: `Reads the queue from its bucket and says what is in it. Nothing is written and no
node is needed: this works while the whole cluster is down. What it shows is as
old as the last flush; the first lines, or a line on stderr, say how old.

With a job id it prints that job, with --list a part of the state: queues (the
types with settings), crons, batches, workers, types (what happened to the jobs
of each: totals, mean times, and the last hour), jobs, or blocked (the jobs that
wait for others). Jobs are chosen as by osqueue job ls: without --status those
that have not ended. With --json each line is one of them.

--list history tells what osqueue restore can bring back: pieces of history
without a hole, and what they take in the bucket. --at shows a state of it in
place of the newest.

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
	flags.Var(&in.at, "at", atHelp)
	flags.IntVar(&in.filter.Limit, "limit", 100, "how many to list")
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
		return view.Usagef("--list history tells of all times: leave --at out")
	case !ofJobs && (in.filter.Named() || len(in.filter.Status) > 0):
		return view.Usagef("jobs are chosen by --status, --type and the like with --list jobs only")
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
		return fmt.Errorf("the state has no job %q; it may be younger than the last flush, or past its retention", in.id)
	}
	if !in.g.JSON {
		return view.ShowJob(in.g, jobOfState(j), false)
	}
	return in.g.WriteJSON(struct {
		v1.Job
		State stateStamp `json:"state"`
	}{jobOfState(j), s.stamp(in.now)})
}
