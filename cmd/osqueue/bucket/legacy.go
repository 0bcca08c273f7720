package bucket

import (
	"context"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
	"osqueue/storage/document"
)

func newLegacyCommand(g *view.Globals) *cobra.Command {
	o := offline{g: g}
	cmd := &cobra.Command{
		Use:   "legacy BUCKET-URL",
		Short: "Print the queue as a document for a legacy broker",
		Long: `Prints the newest state in the bucket in the form that a legacy broker reads: its jobs in
FIFO order, and the number of completions. Jobs that wait for their time or for other jobs are
available in it. Everything else (dead and completed jobs, schedules, batches, settings) is left
out. The command writes nothing to the bucket. Stop all nodes with SIGTERM first, which flushes
the whole state.

` + view.ExitHelp,
		Example: `  osqueue bucket legacy s3://jobs/prod?region=eu-central-1 > queue.json`,
		Args:    view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), func(ctx context.Context, b *buckets) error { return printLegacy(ctx, g, b, args[0]) })
		},
	}
	o.bind(cmd)
	return cmd
}

func printLegacy(ctx context.Context, g *view.Globals, b *buckets, url string) error {
	bucket, err := b.read(ctx, url)
	if err != nil {
		return err
	}
	s, err := readState(ctx, bucket, url, &atFlag{})
	if err != nil {
		return err
	}
	return view.Write(g.Out, string(document.EncodeLegacy(s.view))+"\n")
}
