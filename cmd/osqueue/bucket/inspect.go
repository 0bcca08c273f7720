package bucket

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// inspection is one run of "osqueue inspect".
type inspection struct {
	offline
	bucket  string
	at      atFlag
	history bool
	now     time.Time
}

func newInspectCommand(g *view.Globals) *cobra.Command {
	in := inspection{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "inspect BUCKET-URL",
		Short: "Describe the queue in a bucket, without a cluster",
		Long: `Describes the queue as the bucket has it: how old it is, who wrote it, how it is stored, and
how many jobs, workers and schedules it has. The command writes nothing and needs no node:
it works while the whole cluster is down.

The jobs and everything else are shown by the commands for them, with --bucket: osqueue job
ls, job show, dead ls, queue ls, cron ls, batch ls, worker ls, hook ls, stats, and ui for the
dashboard.

--history lists the states that osqueue restore can rebuild, as ranges without a gap, and
their size in the bucket. --at shows an earlier state instead of the newest.

` + view.ExitHelp,
		Example: `  osqueue inspect file:///srv/osqueue
  osqueue inspect s3://jobs/prod?region=eu-central-1 --history
  osqueue job ls --bucket file:///srv/osqueue --status dead --type mail --at 2h`,
		Args: view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			in.bucket, in.now = args[0], time.Now()
			if in.history && in.at.text != "" {
				return view.Usagef("--history covers all times: remove --at")
			}
			return in.run(cmd.Context(), in.show)
		},
	}
	in.bind(cmd)
	cmd.Flags().Var(&in.at, "at", "an earlier state: "+view.AtHelp)
	cmd.Flags().BoolVar(&in.history, "history", false, "list the states that can be restored")
	return cmd
}

// show reads what is asked for, and prints it.
func (in *inspection) show(ctx context.Context, b *buckets) error {
	bucket, err := b.read(ctx, in.bucket)
	if err != nil {
		return err
	}
	if in.history {
		return in.showHistory(ctx, bucket)
	}
	s, err := readState(ctx, bucket, in.bucket, &in.at)
	if err != nil {
		return err
	}
	return showState(in.g, s, in.now)
}

var spanColumns = view.Columns("FROM", "TO", "SINCE", "UNTIL", "LENGTH")

// showHistory prints the states that can be restored.
func (in *inspection) showHistory(ctx context.Context, bucket storage.Bucket) error {
	h, err := openHistory(ctx, bucket, in.bucket)
	if err != nil {
		return err
	}
	t := &view.LongTable{G: in.g, Columns: spanColumns}
	for _, s := range h.Spans() {
		span := spanOf(s)
		if err := t.Add(span, span.row); err != nil {
			return err
		}
	}
	if err := t.End(); err != nil {
		return err
	}
	u, err := archive.Usage(ctx, bucket, h.Document().Lineage())
	if err != nil {
		return err
	}
	return view.WritePlain(in.g.Err, usageText(u))
}

// usageText describes the size of a history in the bucket.
func usageText(u archive.Used) string {
	if u.Checkpoints+u.Log == 0 {
		return "The bucket contains only the document.\n"
	}
	return fmt.Sprintf("In the bucket: %s (%s), %s of the log (%s).\n",
		count(u.Checkpoints, "checkpoint"), view.BytesText(u.CheckpointBytes), count(u.Log, "object"), view.BytesText(u.LogBytes))
}
