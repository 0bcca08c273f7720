package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
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
no node has to be restarted. If a queue is there already, the command changes nothing.`,
		Example: `  osqueue bucket adopt file:///srv/osqueue --yes
  osqueue bucket adopt s3://jobs/prod?region=eu-central-1 --yes`,
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

func newLegacyCommand(g *view.Globals) *cobra.Command {
	o := offline{g: g}
	cmd := &cobra.Command{
		Use:   "legacy BUCKET-URL",
		Short: "Print the queue as a document for a legacy broker",
		Long: `Prints the newest state in the bucket in the form that a legacy broker reads: its jobs in
FIFO order, and the number of completions. Jobs that wait for their time or for other jobs are
available in it. Everything else (dead and completed jobs, schedules, batches, settings) is left
out. The legacy form has no payload that is not JSON: if a job has one, the command names the
job, and the exit status is 1. The command writes nothing to the bucket. Stop all nodes with
SIGTERM first, which flushes the whole state.`,
		Example: `  osqueue bucket legacy s3://jobs/prod?region=eu-central-1 > queue.json`,
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
	s, err := readState(ctx, bucket, url, view.Moment{})
	if err != nil {
		return err
	}
	text := document.EncodeLegacy(s.view)
	if err := view.Write(g.Out, string(text)+"\n"); err != nil {
		return err
	}
	lost, err := lostPayloads(s.machine, text)
	if err == nil && len(lost) > 0 {
		err = fmt.Errorf("the document lacks the payloads of %s, because they are not JSON: %s", view.Plural(len(lost), "job"), strings.Join(lost, " "))
	}
	return err
}

// lostPayloads returns the ids of the jobs whose payload a document of the legacy broker lacks.
func lostPayloads(m *fsm.Machine, text []byte) (ids []string, err error) {
	var doc struct {
		Jobs []struct {
			ID      string         `json:"id"`
			Payload jsontext.Value `json:"payload"`
		} `json:"jobs"`
	}
	if err := json.Unmarshal(text, &doc, jsontext.AllowDuplicateNames(true)); err != nil {
		return nil, fmt.Errorf("read the document again: %w", err)
	}
	for _, j := range doc.Jobs {
		if of := m.Job(j.ID); j.Payload == nil && of != nil && len(of.Payload()) > 0 {
			ids = append(ids, j.ID)
		}
	}
	return ids, nil
}

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

Stop all nodes of the old cluster first. A node that still runs, and cannot reach the bucket,
continues to answer: its writes are then missing in the new cluster. The command watches the
document for two heartbeats, and refuses if it changes. It asks for confirmation, unless --yes
is given, which is required if stdin is not a terminal.`,
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
	seen, err := placeIn(ctx, bucket, r.url)
	switch {
	case err != nil:
		return err
	case !seen.there():
		return readError(r.url, cluster.DocumentKey, storage.ErrNotFound)
	case seen.err != nil:
		return readError(r.url, cluster.DocumentKey, seen.err)
	case seen.doc.Broker == nil:
		return r.g.Printf("the document belongs to no broker; nothing was changed\n")
	}
	watch := max(r.watch, 2*seen.doc.Fence().Heartbeat)
	switch alive, err := seen.changes(ctx, r.url, watch, watch/2); {
	case err != nil:
		return err
	case alive:
		return fmt.Errorf("the cluster of %s is alive: its document has just changed; stop all of its nodes first", ownerOf(seen.doc))
	}
	if !r.yes {
		if err := r.g.Confirm(ctx, fmt.Sprintf("The document belongs to %s; its last heartbeat is %s old. If a node of that cluster still runs, "+
			"both clusters answer. Give the document up?", ownerOf(seen.doc), view.Short(time.Since(time.UnixMilli(seen.doc.BrokerHeartbeat))))); err != nil {
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

// ownerOf describes the broker of a document.
func ownerOf(d *document.File) string {
	if d.Header == nil || d.Header.Node == "" {
		return "broker " + d.BrokerAddress()
	}
	return fmt.Sprintf("node %s at %s, cluster %s", d.Header.Node, d.BrokerAddress(), d.Header.Cluster)
}
