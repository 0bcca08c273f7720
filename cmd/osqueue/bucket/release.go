package bucket

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// release is one run of "osqueue bucket release".
type release struct {
	offline
	url   string
	yes   bool
	watch time.Duration // at least; tests shorten it
}

func newReleaseCommand(g *view.Globals) *cobra.Command {
	r := release{offline: offline{g: g}, watch: time.Second}
	cmd := &cobra.Command{
		Use:   "release BUCKET-URL",
		Short: "Give the document of a cluster that has stopped to any other cluster",
		Long: `Removes the broker from the document in the bucket, so that a cluster that waits for it
takes over at once. Without the command a cluster that the last leader did not know waits
for that leader's --max-flush-lag.

Stop all nodes of the old cluster first. A node that still runs, and cannot reach the bucket, goes
on answering: its writes are then missing in the new cluster. The command watches the document for
two heartbeats, and refuses if it changes. It asks for confirmation, unless --yes is given, which is
required if stdin is not a terminal.

` + view.ExitHelp,
		Args: view.UsageArgs(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.url = args[0]
			if !r.yes && !r.g.Interactive() {
				return view.NoTerminalError("bucket release")
			}
			return r.run(cmd.Context(), r.release)
		},
	}
	r.bind(cmd)
	cmd.Flags().BoolVarP(&r.yes, "yes", "y", false, "do not ask for confirmation")
	return cmd
}

func (r *release) release(ctx context.Context, b *buckets) error {
	bucket, err := b.write(ctx, r.url)
	if err != nil {
		return err
	}
	seen, err := look(ctx, bucket)
	switch {
	case err != nil:
		return fmt.Errorf("read %s: %w", r.url, err)
	case !seen.there():
		return fmt.Errorf("%s has no %s: check the URL and its prefix", r.url, cluster.DocumentKey)
	case seen.err != nil:
		return readError(r.url, seen.err)
	case seen.doc.Broker == nil:
		return r.g.Printf("the document belongs to no broker; nothing was changed\n")
	}
	if err := r.listen(ctx, bucket, &seen); err != nil {
		return err
	}
	if !r.yes {
		sure, err := r.g.Confirm(ctx, fmt.Sprintf("The document belongs to %s; its last heartbeat is %s old. If a node of that cluster still runs, "+
			"both clusters answer. Give the document up?", ownerOf(seen.doc), view.Short(time.Since(time.UnixMilli(seen.doc.BrokerHeartbeat)))))
		if err == nil && !sure {
			err = errors.New("nothing was changed")
		}
		if err != nil {
			return err
		}
	}
	data, err := document.Release(seen.object.Data)
	if err != nil {
		return err
	}
	switch w := bucket.PutIfMatch(ctx, cluster.DocumentKey, data, seen.object.Version); w.Outcome {
	case storage.Committed:
		return r.g.Printf("%s has given the document up; any cluster takes it over at once\n", ownerOf(seen.doc))
	case storage.Conflict:
		return fmt.Errorf("%s: %w: the cluster is alive", r.url, archive.ErrMoved)
	default:
		return fmt.Errorf("write %s: the outcome is not known; run the command again: %w", r.url, w.Err)
	}
}

// listen returns an error if the document changes within two heartbeats of its writer.
func (r *release) listen(ctx context.Context, bucket storage.Bucket, seen *occupant) error {
	watch := max(r.watch, 2*seen.doc.Fence().Heartbeat)
	for end := time.Now().Add(watch); time.Now().Before(end); {
		if !sleep.For(ctx, min(watch/2, time.Second)) {
			return ctx.Err()
		}
		again, err := look(ctx, bucket)
		if err != nil {
			return fmt.Errorf("read %s: %w", r.url, err)
		}
		if !bytes.Equal(again.object.Data, seen.object.Data) {
			return fmt.Errorf("the cluster of %s is alive: its document has just changed; stop all of its nodes first", ownerOf(seen.doc))
		}
	}
	return nil
}

// ownerOf describes the broker of a document.
func ownerOf(d *document.File) string {
	if d.Header == nil || d.Header.Node == "" {
		return "broker " + d.BrokerAddress()
	}
	return fmt.Sprintf("node %s at %s, cluster %s", d.Header.Node, d.BrokerAddress(), d.Header.Cluster)
}
