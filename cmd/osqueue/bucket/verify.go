package bucket

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// verification is one run of "osqueue verify".
type verification struct {
	offline
	url      string
	document string
	lineage  string
	repair   bool
	force    bool
	silence  time.Duration // after which a broker counts as dead
}

func newVerifyCommand(g *view.Globals) *cobra.Command {
	v := verification{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "verify BUCKET-URL",
		Short: "Check all objects of a queue in its bucket, and repair it",
		Long: `Reads all objects of the queue in its bucket: the document and the archive. The command
compares every checksum, looks for gaps, applies every log entry, and compares each
state with the state that the log before it leads to. It writes nothing, and the
cluster may run. Each defect is printed with its object and its consequence; if there
are any, the exit status is 1.

If a node still has its disk, start the nodes instead of repairing: they have the
newest state. Their leader replaces what is missing in the archive by itself. If
the document cannot be read, move it away first; the leader writes it again, on S3 and
GCS after osqueue bucket adopt.

--repair is for a queue whose nodes are lost. If the document is missing, or if it or
an object that it names is damaged, --repair writes a new document with the newest
complete state. It deletes nothing, keeps a copy of the old document under conflicts/,
and reports what was kept and what is lost. It never replaces a damaged queue by an
empty one. Damage before the newest state cannot be repaired; the retention deletes it.
While a leader is alive --repair fails: stop the nodes first. Nodes that have a newer
state than the repaired one keep it when they start.`,
		Example: `  osqueue verify s3://jobs/prod?region=eu-central-1
  osqueue verify file:///srv/osqueue --json
  osqueue verify file:///srv/osqueue --repair`,
		RunE: func(cmd *cobra.Command, args []string) error {
			v.url = args[0]
			if !v.repair && (v.force || v.lineage != "") {
				return view.Usagef("--force and --lineage need --repair")
			}
			return v.run(cmd.Context(), v.verify)
		},
	}
	v.bind(cmd)
	return cmd
}

func (v *verification) bind(cmd *cobra.Command) {
	v.offline.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&v.document, "document", cluster.DocumentKey, "key of the document to check, such as that of a copy under conflicts/")
	flags.BoolVar(&v.repair, "repair", false, "replace the document by the newest complete state")
	flags.BoolVar(&v.force, "force", false, "repair even if the cluster may be alive, which fences it")
	flags.StringVar(&v.lineage, "lineage", "", "lineage to repair, if the lineage of the document cannot be read")
	view.PositiveVar(flags, &v.silence, "broker-timeout", defaultBrokerTimeout, "time without a heartbeat after which the cluster is dead, as for serve")
}

func (v *verification) verify(ctx context.Context, b *buckets) error {
	if v.repair {
		return v.verifyAndRepair(ctx, b)
	}
	bucket, err := b.read(ctx, v.url)
	if err != nil {
		return err
	}
	found, err := archive.Verify(ctx, bucket, v.document, archive.VerifyOptions{})
	if err != nil {
		return v.missing(ctx, bucket, err)
	}
	report := reportOf(found)
	if err := report.print(v.g, v.url); err != nil {
		return err
	}
	if !found.OK() {
		return view.SilentError{}
	}
	return nil
}

func (v *verification) verifyAndRepair(ctx context.Context, b *buckets) error {
	if err := v.exists(ctx, b); err != nil {
		return err
	}
	bucket, err := b.write(ctx, v.url)
	if err != nil {
		return err
	}
	done, failed := archive.Repair(ctx, bucket, v.document, archive.RepairOptions{
		Force: v.force, Now: time.Now(), Timeout: v.silence, Lineage: v.lineage,
	})
	if done == nil || done.Before == nil {
		return v.explain(failed)
	}
	report := reportOf(done.Before)
	report.repaired(done)
	if err := report.print(v.g, v.url); err != nil {
		return err
	}
	switch {
	case errors.Is(failed, archive.ErrAlive) && done.From.IsZero():
		return fmt.Errorf("%s: nothing was written, because the document does not show whether a leader is alive\n%s"+
			"If all disks are lost, make sure that all nodes are stopped, and give --force", v.url, v.wholeDisks(done.Missing))
	case failed != nil:
		return v.explain(failed)
	case !done.Written && !done.Before.OK():
		return view.SilentError{}
	}
	return nil
}

// wholeDisks describes the next step if a node still has its disk; missing says that
// there is no document.
func (v *verification) wholeDisks(missing bool) string {
	if missing {
		return "If a node still has its disk, do not repair: start the nodes, and the leader writes the document again\n"
	}
	return fmt.Sprintf("If a node still has its disk, do not repair: move %s away and start the nodes, and the leader writes it again\n", v.document)
}

// exists returns an error for a wrong path, before the driver makes a bucket of it.
func (v *verification) exists(ctx context.Context, b *buckets) error {
	bucket, err := b.read(ctx, v.url)
	if err != nil {
		return err
	}
	_, err = bucket.Get(ctx, v.document)
	if !errors.Is(err, storage.ErrNotFound) {
		return v.explain(err)
	}
	found, failed := archive.HasArchive(ctx, bucket)
	if failed == nil && found {
		return nil
	}
	return v.explain(errors.Join(err, failed))
}

// missing explains an error of Verify. If there is no document, the error names the
// archive to repair it from, if there is one.
func (v *verification) missing(ctx context.Context, bucket storage.Bucket, err error) error {
	if !errors.Is(err, storage.ErrNotFound) || errors.Is(err, archive.ErrDamaged) {
		return v.explain(err)
	}
	found, failed := archive.HasArchive(ctx, bucket)
	switch {
	case failed != nil:
		return v.explain(failed)
	case !found:
		return v.explain(err)
	}
	return fmt.Errorf("%s has no %s, but its archive exists\n%sIf all disks are lost:\n  osqueue verify %s --repair",
		v.url, v.document, v.wholeDisks(true), view.ShellWord(v.url))
}

// explain adds the next step for the user to an error.
func (v *verification) explain(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, storage.ErrNotFound) && !errors.Is(err, archive.ErrDamaged):
		return readError(v.url, v.document, err)
	case errors.Is(err, archive.ErrAlive):
		return fmt.Errorf("%s: %w\nStop all nodes, wait for %s, and try again; --force does it at once", v.url, err, v.silence)
	case errors.Is(err, archive.ErrNothingGood):
		return fmt.Errorf("%s: %w, and nothing was written\n%sOtherwise look for a copy under conflicts/",
			v.url, err, v.wholeDisks(false))
	}
	return fmt.Errorf("%s: %w", v.url, err)
}
