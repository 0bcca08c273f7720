package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/bucketurl"
)

// backup is "osqueue backup".
type backup struct {
	offline
	from, to    string // bucket URLs
	every, keep time.Duration
}

func newBackupCommand(g *view.Globals) *cobra.Command {
	b := backup{offline: offline{g: g}}
	cmd := &cobra.Command{
		Use:   "backup --from BUCKET-URL --to BUCKET-URL [--every 1h] [--keep 7d]",
		Short: "Copy the queue to another bucket, and check the copy",
		Long: `Copies the newest state of the queue from its bucket to another bucket, region or directory.
The command only reads --from, and the cluster may run. Objects that are at --to already, of
earlier backups, are not copied again. Then the command rebuilds the state from --to and compares it,
which takes the memory of a node. A backup counts from then on: one that is cut leaves the earlier
ones as they are, and the next one continues.

--from is the bucket of a queue. --to has nothing else than backups of one queue.
osqueue restore makes a queue of a backup, and osqueue drill tries that. inspect, verify and all
commands with --bucket read the newest backup.

With --every the command runs until it is stopped, prints a line for each backup, and tries again
after one that has failed. Without it the exit status is 1 if the backup has failed, or if the object
of an artefact of a job is missing at --from; the backup is then written without that.`,
		Example: `  osqueue backup --from s3://jobs/prod?region=eu-central-1 --to s3://elsewhere/jobs?region=us-west-2 --keep 7d
  osqueue backup --from file:///srv/osqueue --to file:///mnt/backup/osqueue --every 1h --keep 7d`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := b.check(); err != nil {
				return err
			}
			if b.every == 0 {
				return b.once(cmd.Context())
			}
			return b.repeat(cmd.Context())
		},
	}
	b.bind(cmd)
	flags := cmd.Flags()
	flags.StringVar(&b.from, "from", "", "bucket URL of the queue")
	flags.StringVar(&b.to, "to", "", "bucket URL for the backups")
	view.SpanVar(flags, &b.every, "every", 0, "make a backup at this interval, until the command is stopped")
	view.SpanVar(flags, &b.keep, "keep", 0, "first remove the backups that are more than this older than the newest one (default: none)")
	return cmd
}

func (b *backup) check() error {
	switch {
	case b.from == "":
		return view.Usagef("--from is missing: the URL of the bucket of the queue")
	case b.to == "":
		return view.Usagef("--to is missing: the URL of the bucket for the backups")
	case strings.TrimRight(b.from, "/") == strings.TrimRight(b.to, "/"):
		return view.Usagef("--to is --from: a backup in the bucket of the queue is lost with it; choose another one")
	}
	for _, url := range []string{b.from, b.to} {
		if err := bucketurl.Check(url); err != nil {
			return &view.UsageError{Err: err}
		}
	}
	return nil
}

// repeat makes backups until ctx ends.
func (b *backup) repeat(ctx context.Context) error {
	b.quiet = true
	for next := time.Now(); sleep.For(ctx, time.Until(next)); {
		if next = next.Add(b.every); next.Before(time.Now()) {
			next = time.Now().Add(b.every)
		}
		err := b.once(ctx)
		if err == nil || ctx.Err() != nil || errors.Is(err, view.SilentError{}) {
			continue
		}
		line := fmt.Sprintf("%s  the backup has failed; next at %s: %v\n", view.LocalTime(time.Now().UnixMilli()), view.LocalTime(next.UnixMilli()), err)
		if err := view.WritePlain(b.g.Err, line); err != nil {
			return err
		}
	}
	return nil
}

// once makes one backup.
func (b *backup) once(ctx context.Context) error {
	begin := time.Now()
	return b.run(ctx, func(ctx context.Context, open *buckets) error {
		from, err := open.read(ctx, b.from)
		if err != nil {
			return err
		}
		to, err := open.write(ctx, b.to)
		if err != nil {
			return err
		}
		done, err := archive.BackUp(ctx, from, to, cluster.DocumentKey, b.keep)
		if done == nil {
			return b.explain(err)
		}
		return errors.Join(b.report(done, time.Since(begin)), b.explain(err))
	})
}

// explain adds the next step for the user to an error.
func (b *backup) explain(err error) error {
	switch {
	case errors.Is(err, archive.ErrIsQueue), errors.Is(err, archive.ErrOtherQueue):
		return fmt.Errorf("%s: %w; choose another bucket or prefix for --to", b.to, err)
	case errors.Is(err, archive.ErrDamaged):
		return fmt.Errorf("%w\n%s", err, verifyHint(b.from))
	case errors.Is(err, storage.ErrNotFound):
		return readError(b.from, cluster.DocumentKey, err)
	}
	return err
}

// backupReport is the report about one backup.
type backupReport struct {
	At        int64    `json:"at"` // when it ended, ms
	Key       string   `json:"key"`
	LSN       string   `json:"lsn"`
	Heartbeat int64    `json:"heartbeat"` // of the leader when it wrote the document, ms
	Newer     string   `json:"newer,omitzero"`
	Jobs      int      `json:"jobs"`
	Objects   int      `json:"objects"`
	Copied    int      `json:"copied"` // of the objects
	Bytes     int64    `json:"bytes"`  // of those
	Artefacts int      `json:"artefacts,omitzero"`
	Missing   []string `json:"missing,omitzero"` // artefacts
	Removed   int      `json:"removed,omitzero"` // earlier backups
	TookMs    int64    `json:"tookMs"`
}

// report prints the line about a backup. The error is silent if artefacts are missing.
func (b *backup) report(done *archive.BackedUp, took time.Duration) error {
	r := backupReport{
		At: time.Now().UnixMilli(), Key: done.Key(), LSN: done.LSN.String(), Heartbeat: done.At, Jobs: done.Counts.Sum(),
		Objects: done.Objects, Copied: done.Copied, Bytes: done.Bytes, Artefacts: done.Artefacts, Missing: done.Missing, Removed: done.Removed,
		TookMs: took.Milliseconds(),
	}
	if done.Newer != nil {
		r.Newer = done.Newer.Key()
	}
	if err := b.g.Print(r, "%s", r.line()); err != nil {
		return err
	}
	for _, key := range r.Missing {
		if err := view.WritePlain(b.g.Err, missingText(b.from, key)); err != nil {
			return err
		}
	}
	if len(r.Missing) > 0 {
		return view.SilentError{}
	}
	return nil
}

func (r *backupReport) line() string {
	at := view.LocalTime(r.At)
	if r.Newer != "" {
		return fmt.Sprintf("%s  nothing written: LSN %s is older than the backup %s\n", at, r.LSN, r.Newer)
	}
	line := fmt.Sprintf("%s  LSN %s, written %s ago: %s; copied %d of %s (%s)", at, r.LSN, view.AgoText(r.Heartbeat, time.UnixMilli(r.At)),
		view.Plural(r.Jobs, "job"), r.Copied, view.Plural(r.Objects, "object"), view.BytesText(r.Bytes))
	if r.Artefacts > 0 {
		line += ", " + view.Plural(r.Artefacts, "artefact")
	}
	if r.Removed > 0 {
		line += fmt.Sprintf(", removed %s", view.Plural(r.Removed, "old backup"))
	}
	return fmt.Sprintf("%s; checked, in %s\n", line, view.Short(view.FromMs(r.TookMs)))
}

// backupSpans returns the states of the backups in a bucket.
func backupSpans(ctx context.Context, bucket storage.Bucket) ([]archive.Span, error) {
	all, err := archive.Backups(ctx, bucket)
	spans := make([]archive.Span, len(all))
	for i, b := range all {
		at := time.UnixMilli(b.At)
		spans[i] = archive.Span{From: b.LSN, To: b.LSN, Since: at, Until: at}
	}
	return spans, err
}
