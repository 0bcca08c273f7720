package bucket

import (
	"strings"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage/bucketurl"
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
can start. The bucket --from does not change. osqueue inspect --history lists the
states that can be restored.

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
  osqueue restore --from file:///srv/osqueue --at '2026-12-24 18:00' --to file:///srv/osqueue --replace`,
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
