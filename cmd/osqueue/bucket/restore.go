package bucket

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/bucketurl"
	"osqueue/storage/document"
	"osqueue/storage/probe"
)

// restoration is one run of "osqueue restore" or "osqueue branch".
type restoration struct {
	offline
	from, to string // bucket URLs; to may be "" in a dry run
	document string // the key in from whose history it is
	at       view.Moment
	dryRun   bool
	resume   bool
	replace  bool
	branch   bool          // it is a branch: for staging
	silence  time.Duration // after which a broker counts as dead
	now      time.Time
	changed  bool // the document at --to changed while it was watched
}

// inPlace reports whether the restore replaces the source itself.
func (r *restoration) inPlace() bool {
	return strings.TrimRight(r.from, "/") == strings.TrimRight(r.to, "/")
}

var defaultBrokerTimeout = cluster.DefaultConfig().BrokerTimeout

func newRestoreCommand(g *view.Globals) *cobra.Command {
	r := restoration{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "restore --from BUCKET-URL --to BUCKET-URL [--at LSN|TIME]",
		Short: "Make a new queue from a state in a bucket",
		Long: `Rebuilds a state of the queue in --from, the newest or with --at an earlier one, and
writes it to --to as a new document with its own lineage, on which an empty cluster
can start. --from may be the bucket of a queue, or have backups (osqueue backup), of which
the newest is restored. It does not change. osqueue inspect --history lists the states that can
be restored; of a time between two backups it is the one before.

First it shows, by type and state, the difference between the restored and the newest
state, and the queue at --to. With --dry-run it stops there.

All types and schedules of the new queue are paused, so that no job runs twice before
you have checked the queue; the output has the commands that resume them. With --resume
they are not paused.

If --to holds a queue already, the command fails, unless you give --replace: then it
keeps a copy under conflicts/ and replaces the queue, but never while its cluster is
alive: it waits until the cluster has been silent for --broker-timeout. With
--replace, --from and --to may be the same bucket, to rewind it. Nodes with another
lineage refuse the new document: start them with empty data directories.`,
		Example: `  osqueue restore --from file:///srv/osqueue --at 15m --dry-run
  osqueue restore --from s3://jobs/prod?region=eu-central-1 --at 12-90210 --to s3://jobs/prod-2?region=eu-central-1
  osqueue restore --from file:///srv/osqueue --at '2026-12-24 18:00' --to file:///srv/osqueue --replace
  osqueue restore --from s3://elsewhere/jobs?region=us-west-2 --to file:///srv/osqueue`,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.command(cmd) },
	}
	r.bind(cmd)
	flags := cmd.Flags()
	flags.BoolVar(&r.resume, "resume", false, "do not pause types and schedules")
	flags.BoolVar(&r.replace, "replace", false, "replace the queue at --to; a copy of its document is kept")
	view.PositiveVar(flags, &r.silence, "broker-timeout", defaultBrokerTimeout, "time without a heartbeat after which the cluster at --to is dead, as for serve")
	return cmd
}

func newBranchCommand(g *view.Globals) *cobra.Command {
	r := restoration{offline: offline{g: g}, branch: true, silence: defaultBrokerTimeout}
	cmd := &cobra.Command{
		Use:   "branch --from BUCKET-URL --to BUCKET-URL [--at LSN|TIME]",
		Short: "Copy a queue to another bucket, to try things out with it",
		Long: `Copies the state of a queue, the newest or with --at an earlier one, to another
bucket or prefix, as a separate queue for staging. The command only reads --from, which
may be in use. In the copy all types and schedules are paused, so that no job that was
meant for production runs by itself.

It does the same as osqueue restore, but cannot replace a queue.`,
		Example: `  osqueue branch --from s3://jobs/prod?region=eu-central-1 --to file:///tmp/staging
  osqueue branch --from file:///srv/osqueue --at 2h --to file:///tmp/staging`,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.command(cmd) },
	}
	r.bind(cmd)
	return cmd
}

func (r *restoration) bind(cmd *cobra.Command) {
	r.offline.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.from, "from", "", "bucket URL of the queue")
	flags.StringVar(&r.to, "to", "", "bucket URL of the new queue")
	view.MomentVar(flags, &r.at, "an earlier state:")
	flags.StringVar(&r.document, "document", cluster.DocumentKey, "key of the document in --from, such as that of a copy under conflicts/")
	flags.BoolVar(&r.dryRun, "dry-run", false, "only show the difference; --to may be left out")
}

func (r *restoration) command(cmd *cobra.Command) error {
	if err := r.check(); err != nil {
		return err
	}
	r.now = time.Now()
	return r.run(cmd.Context(), r.restore)
}

func (r *restoration) check() error {
	switch {
	case r.from == "":
		return view.Usagef("--from is missing: the URL of the bucket to restore from")
	case r.to == "" && !r.dryRun:
		return view.Usagef("--to is missing: the URL of the bucket for the new queue (or give --dry-run)")
	}
	for _, url := range []string{r.from, r.to} {
		if url == "" {
			continue
		}
		if err := bucketurl.Check(url); err != nil {
			return &view.UsageError{Err: err}
		}
	}
	if r.inPlace() && r.branch {
		return view.Usagef("--to is --from: choose another bucket or prefix for a branch (osqueue restore --replace rewinds a queue in place)")
	}
	if r.inPlace() && !r.replace && !r.dryRun {
		return view.Usagef("--to is --from: with --replace the queue is rewound in place; without it choose another bucket or prefix")
	}
	return nil
}

// occupant is the document at the place where a restored queue is to be written.
type occupant struct {
	object storage.Object // no data: the place is empty
	doc    *document.File
	err    error // why doc is nil although there is an object
}

func (o *occupant) there() bool { return o.object.Data != nil }

// look reads the document of a bucket.
func look(ctx context.Context, bucket storage.Bucket) (occupant, error) {
	obj, err := bucket.Get(ctx, cluster.DocumentKey)
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return occupant{}, nil
	case err != nil:
		return occupant{}, err
	}
	o := occupant{object: obj}
	o.doc, o.err = document.Decode(obj.Data)
	return o, nil
}

// refusal returns the reason why an occupant must not be replaced, or "".
func (r *restoration) refusal(o *occupant) string {
	switch {
	case !o.there():
		return ""
	case !r.replace && r.branch:
		return fmt.Sprintf("%s holds a queue already: choose another bucket or prefix", r.to)
	case !r.replace:
		return fmt.Sprintf("%s holds a queue already (%s): choose another bucket or prefix, or give --replace to keep a copy of it and replace it",
			r.to, o.name())
	case r.changed:
		return fmt.Sprintf("the cluster at %s is alive: its document has just changed; stop all of its nodes, and try again", r.to)
	case r.dryRun && o.doc != nil && o.doc.Broker != nil && r.remaining(o.doc) > 0:
		return fmt.Sprintf("the cluster at %s is alive, or has just stopped: broker %s wrote %s ago; stop all of its nodes",
			r.to, *o.doc.Broker, view.Short(r.silentFor(o.doc)))
	}
	return ""
}

// clocksApart bounds the difference between the clocks of this machine and of a cluster.
const clocksApart = 24 * time.Hour

// listen checks for a living cluster, by reading the document again until a silent broker
// counts as dead. Its clock may be wrong: if the heartbeat lies in the future, listen waits for
// the whole time, and if it looks old, for longer than one heartbeat. A dry run does not wait for
// a cluster that may have just stopped.
func (r *restoration) listen(ctx context.Context, seen *place) error {
	if !r.replace || seen.doc == nil || seen.doc.Broker == nil {
		return nil
	}
	watch := r.silenceOf(seen.doc)
	switch silent, left := r.silentFor(seen.doc), r.remaining(seen.doc); {
	case silent >= clocksApart || r.dryRun && left > 0:
		return nil
	case silent >= 0:
		watch = max(left, r.silence*2/5, seen.doc.Fence().Heartbeat*3/2)
		if left <= 0 {
			break
		}
		if err := view.Write(r.g.Err, fmt.Sprintf("the cluster at %s wrote %s ago; waiting %s to see whether it has stopped\n",
			r.to, view.Short(silent), view.Short(watch))); err != nil {
			return err
		}
	}
	var err error
	r.changed, err = seen.changes(ctx, r.to, watch, watch)
	return err
}

// changes reports whether the document changes within a time, in which it is read at an interval, at least every
// second.
func (p *place) changes(ctx context.Context, url string, within, interval time.Duration) (bool, error) {
	for end := time.Now().Add(within); time.Now().Before(end); {
		if !sleep.For(ctx, min(interval, time.Second)) {
			return false, ctx.Err()
		}
		again, err := look(ctx, p.bucket)
		if err != nil {
			return false, fmt.Errorf("read %s: %w", url, err)
		}
		if !bytes.Equal(again.object.Data, p.object.Data) {
			return true, nil
		}
	}
	return false, nil
}

// silenceOf is the silence after which the document's broker counts as dead.
func (r *restoration) silenceOf(d *document.File) time.Duration {
	return max(r.silence, d.Fence().Timeout)
}

// remaining is the time after which the document's broker counts as dead if it stays silent.
// It is not positive if that time has passed, or if the heartbeat lies in the future.
func (r *restoration) remaining(d *document.File) time.Duration {
	if r.silentFor(d) < 0 {
		return 0
	}
	return r.silenceOf(d) - r.silentFor(d)
}

func (r *restoration) silentFor(d *document.File) time.Duration {
	return r.now.Sub(time.UnixMilli(d.BrokerHeartbeat))
}

// name describes an occupant in short.
func (o *occupant) name() string {
	switch {
	case o.doc == nil:
		return "its document cannot be read"
	case o.doc.Header == nil:
		return "of the legacy broker"
	}
	return fmt.Sprintf("lineage %s, LSN %s", o.doc.Header.Lineage, o.doc.LSN())
}

// restore reads and compares the states, and then writes.
func (r *restoration) restore(ctx context.Context, b *buckets) error {
	seen, err := r.lookAt(ctx, b)
	if err != nil {
		return err
	}
	if err := r.listen(ctx, &seen); err != nil {
		return err
	}
	refused := r.refusal(&seen.occupant)
	if refused != "" && !r.dryRun {
		return errors.New(refused)
	}
	src, err := r.source(ctx, b)
	if err != nil {
		return err
	}
	report, m, err := r.compare(ctx, src, seen)
	if err != nil {
		return err
	}
	report.Refused = refused
	paused, err := archive.Begin(m, r.origin(src, seen))
	if err != nil {
		return fmt.Errorf("%w\n%s", err, "with --resume no type or schedule is paused")
	}
	report.Paused = pausedNames{Types: paused.Types, Crons: paused.Crons}
	if !r.g.JSON {
		if err := report.show(r.g, r.now); err != nil {
			return err
		}
	}
	if r.dryRun {
		return r.finish(report)
	}
	if report.Written, err = r.write(ctx, b, seen, m.View()); err != nil {
		return err
	}
	return r.finish(report)
}

// finish prints the report and the next steps.
func (r *restoration) finish(report *restoreReport) error {
	if r.g.JSON {
		return r.g.WriteJSON(report)
	}
	return r.g.Printf("%s", r.nextSteps(report))
}

// place is a bucket and its occupant.
type place struct {
	bucket storage.Bucket
	occupant
}

// placeIn reads the document of a bucket.
func placeIn(ctx context.Context, bucket storage.Bucket, url string) (place, error) {
	o, err := look(ctx, bucket)
	if err != nil {
		err = fmt.Errorf("read %s: %w", url, err)
	}
	return place{bucket, o}, err
}

// lookAt reads the document at --to, without making anything there.
func (r *restoration) lookAt(ctx context.Context, b *buckets) (place, error) {
	if r.to == "" {
		return place{}, nil
	}
	bucket, err := b.read(ctx, r.to)
	if err != nil {
		return place{}, err
	}
	return placeIn(ctx, bucket, r.to)
}

// source opens the history at --from.
func (r *restoration) source(ctx context.Context, b *buckets) (*archive.History, error) {
	bucket, err := b.read(ctx, r.from)
	if err != nil {
		return nil, err
	}
	var h *archive.History
	if r.document == cluster.DocumentKey {
		h, err = openHistory(ctx, bucket, r.from, r.at)
	} else if h, err = archive.Open(ctx, bucket, r.document); err != nil {
		err = readError(r.from, r.document, err)
	}
	if err == nil && h.Document().Edited {
		err = view.WritePlain(r.g.Err, fmt.Sprintf("%s was changed by hand; jobs that were added to it are not part of a state, and are left out\n", h.Key()))
	}
	return h, err
}

// origin returns numbers that are higher than those of both queues.
func (r *restoration) origin(src *archive.History, seen place) archive.Origin {
	o := archive.Origin{Lineage: uuid.NewString(), Pause: !r.resume}
	for _, d := range []*document.File{src.Document(), seen.doc} {
		if d == nil || d.Header == nil {
			continue
		}
		o.Epoch = max(o.Epoch, d.Header.Epoch)
		if d.LSN().Compare(o.After) > 0 {
			o.After = d.LSN()
		}
	}
	return o
}

// compare rebuilds the state to be restored, and compares it with the newest state and
// with the state at --to.
func (r *restoration) compare(ctx context.Context, src *archive.History, seen place) (*restoreReport, *fsm.Machine, error) {
	report := &restoreReport{From: r.from, To: r.to, DryRun: r.dryRun, InPlace: r.inPlace()}
	if !r.at.IsZero() {
		m, err := src.At(ctx, archive.Target{})
		if err != nil { // the newest state is damaged, which is a reason to restore an older one
			report.Newest.Error = err.Error()
		} else {
			report.Newest = pointOf(m)
		}
	}
	m, err := stateAt(ctx, src, r.from, r.at)
	if err != nil {
		return nil, nil, err
	}
	report.Restored = pointOf(m)
	if r.at.IsZero() {
		report.Newest = report.Restored
	}
	report.There = r.pointThere(ctx, seen)
	report.Rows = restoreRows(&report.Restored, &report.Newest, report.There)
	return report, m, nil
}

// pointThere describes the state at --to. It returns nil if the place is empty or the
// same as --from.
func (r *restoration) pointThere(ctx context.Context, seen place) *statePoint {
	if !seen.there() || r.inPlace() {
		return nil
	}
	if seen.doc == nil {
		return &statePoint{Error: seen.err.Error()}
	}
	m, err := archive.Machine(ctx, seen.bucket, seen.doc)
	if err != nil {
		return &statePoint{Error: err.Error()}
	}
	p := pointOf(m)
	return &p
}

// write keeps a copy of the present document and then writes the new one.
func (r *restoration) write(ctx context.Context, b *buckets, seen place, v *fsm.View) (*restoreWritten, error) {
	bucket, err := b.write(ctx, r.to)
	if err != nil {
		return nil, err
	}
	if err := probe.RunFor(ctx, bucket, r.to, 2*r.timeout); err != nil {
		return nil, err
	}
	now, err := placeIn(ctx, bucket, r.to) // through the driver, which returns versions
	if err != nil {
		return nil, err
	}
	if !bytes.Equal(now.object.Data, seen.object.Data) {
		return nil, fmt.Errorf("%s: %w: run the command again", r.to, archive.ErrMoved)
	}
	out := &restoreWritten{}
	if now.there() {
		out.Copy = copyKey(now.doc)
		if err := archive.Put(ctx, bucket, out.Copy, now.object.Data); err != nil {
			return nil, fmt.Errorf("keep a copy of the present document: %w", err)
		}
	}
	if !r.inPlace() {
		if out.Artefacts, out.Missing, err = r.copyArtefacts(ctx, b, bucket, v); err != nil {
			return nil, err
		}
	}
	c, err := archive.WriteBeginning(ctx, bucket, cluster.DocumentKey, now.object.Version, archive.Beginning{
		State: v, NowMs: time.Now().UnixMilli(),
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.to, err)
	}
	out.LSN, out.Lineage, out.Epoch = c.Meta.LSN().String(), c.Meta.Lineage, c.Meta.Epoch
	out.CheckpointBytes = c.Archive.Checkpoint.Stored
	for _, n := range c.Counts {
		out.Jobs += n
	}
	return out, nil
}

// copyKey returns the key for the copy of a replaced document.
func copyKey(d *document.File) string {
	name := "unreadable"
	if d != nil {
		name = d.LSN().String()
	}
	return "conflicts/" + name + "-" + rand.Text() + ".json"
}
