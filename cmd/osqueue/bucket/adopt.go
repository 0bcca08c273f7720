package bucket

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
)

func newBucketCommand(g *view.Globals) *cobra.Command {
	cmd := view.NewGroup("bucket", "Decide which bucket a cluster uses, and which cluster a bucket",
		"Commands about a bucket as a whole. Those that only read it, or repair it, have names of their own.")
	cmd.AddCommand(newAdoptCommand(g), newReleaseCommand(g), newLegacyCommand(g))
	return cmd
}

func newAdoptCommand(g *view.Globals) *cobra.Command {
	o := offline{g: g}
	yes := false
	cmd := &cobra.Command{
		Use:   "adopt BUCKET-URL",
		Short: "Let a cluster that has state use a bucket without a queue",
		Long: `Marks an empty bucket, so that a cluster whose nodes have state writes its queue there.

A node with state does not use a bucket without ` + cluster.DocumentKey + `, because that is probably
another bucket, or a directory whose file system is not mounted. Give this command if
it is the right one: the bucket was emptied, or the cluster moves to a new one. It
writes one small object, ` + storage.MarkerKey + `. The leader of the cluster then writes its whole state;
no node has to be restarted. If a queue is there already, the command changes nothing.

` + view.ExitHelp,
		Example: `  osqueue bucket adopt file:///srv/osqueue --yes
  osqueue bucket adopt s3://jobs/prod?region=eu-central-1 --yes`,
		Args: view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			return o.run(cmd.Context(), func(ctx context.Context, b *buckets) error { return adopt(ctx, g, b, args[0], yes) })
		},
	}
	o.bind(cmd)
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "confirm that it is the right bucket")
	return cmd
}

// adopt marks the bucket.
func adopt(ctx context.Context, g *view.Globals, b *buckets, url string, yes bool) error {
	bucket, err := b.read(ctx, url)
	if err != nil {
		return err
	}
	for _, key := range []string{cluster.DocumentKey, storage.MarkerKey} {
		_, err := bucket.Get(ctx, key)
		if err == nil {
			return g.Printf("%s has %s: nothing to do\n", url, key)
		}
		if !errors.Is(err, storage.ErrNotFound) {
			return err
		}
	}
	if !yes {
		return view.Usagef("%s has no %s. With --yes this command writes %s there, and the next leader of a cluster that uses "+
			"this bucket writes its whole state next to it", url, cluster.DocumentKey, storage.MarkerKey)
	}
	if bucket, err = b.write(ctx, url); err != nil {
		return err
	}
	if w := bucket.PutIfAbsent(ctx, storage.MarkerKey, storage.NewMarker()); w.Outcome == storage.Unknown {
		return fmt.Errorf("write %s: %w", storage.MarkerKey, w.Err)
	}
	return g.Printf("%s is marked: the leader of the cluster writes its state there\n", url)
}
