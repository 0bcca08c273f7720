package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/user"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cluster/membership"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage"
	"osqueue/storage/bucketurl"
	"osqueue/storage/document"
)

// recovery is one run of "osqueue cluster recover".
type recovery struct {
	g      *view.Globals
	bucket string
	audit  string // file
	yes    bool
}

func newClusterRecoverCommand(g *view.Globals) *cobra.Command {
	r := recovery{g: g}
	cmd := &cobra.Command{
		Use:   "recover DIR…",
		Short: "Continue from the disk of one node, after the majority is lost for good",
		Long: `Shows, for the data directories of stopped nodes, the newest log entry (LSN) on each disk,
and with --bucket that in the bucket. Nothing is changed without --yes.

With --yes and one DIR, the node of that directory becomes the only member of its cluster,
and continues from what its disk has when you start it. Choose the disk with the newest
LSN; if the bucket has a newer one, the node takes that. What only the lost disks had is
lost. Stop all other nodes before, and delete their data directories: with these they are
the old cluster. Then add them again: osqueue cluster add.

If a majority of the nodes runs, or can be started, do not use this command: a majority
continues by itself, and osqueue cluster remove removes the others.`,
		Example: `  osqueue cluster recover /var/lib/osqueue --bucket file:///srv/osqueue
  osqueue cluster recover /var/lib/osqueue --yes`,
		RunE: func(cmd *cobra.Command, dirs []string) error { return r.run(cmd.Context(), dirs) },
	}
	f := cmd.Flags()
	f.StringVar(&r.bucket, "bucket", "", "URL of the bucket, to show its newest log entry")
	f.StringVar(&r.audit, "audit-log", g.Getenv("OSQUEUE_AUDIT_LOG"), "file to which a line about the recovery is appended, as for serve")
	f.BoolVarP(&r.yes, "yes", "y", false, "make the node of DIR the only member of its cluster")
	return cmd
}

func (r *recovery) run(ctx context.Context, dirs []string) error {
	if r.yes && len(dirs) != 1 {
		return view.Usagef("osqueue cluster recover --yes: choose one DIR, the one with the newest LSN")
	}
	log := hclog.New(&hclog.LoggerOptions{Name: "recover", Level: hclog.Warn, Output: r.g.Err})
	rows := [][]string{{"DISK", "NODE", "LSN", "MEMBERS", "RUNNING"}}
	for _, dir := range dirs {
		s, err := cluster.Recover(ctx, dir, false, log)
		if err != nil {
			return err
		}
		var names, running []string
		for _, m := range s.Members {
			names = append(names, membership.NodeName(m.ID))
		}
		for _, id := range s.Listening {
			running = append(running, membership.NodeName(id))
		}
		rows = append(rows, []string{dir, membership.NodeName(s.Server), s.LSN.String(), strings.Join(names, ","), view.OrDash(strings.Join(running, ","))})
	}
	if r.bucket != "" {
		lsn, err := bucketLSN(ctx, r.bucket)
		if err != nil {
			return err
		}
		rows = append(rows, []string{r.bucket, "-", lsn, "-", "-"})
	}
	if err := r.g.Table(rows); err != nil {
		return err
	}
	if !r.yes {
		return r.g.Printf("nothing was changed; to continue from one of these disks: osqueue cluster recover DIR --yes\n")
	}
	s, err := cluster.Recover(ctx, dirs[0], true, log)
	err = errors.Join(err, r.record(s, err))
	if err != nil {
		return err
	}
	return r.g.Printf("node %s is the only member of its cluster, with the log up to %s: delete the data directories of the other nodes, start this one, and add them again: osqueue cluster add\n",
		membership.NodeName(s.Server), s.LSN)
}

// bucketLSN returns the LSN of the document in a bucket.
func bucketLSN(ctx context.Context, url string) (string, error) {
	b, err := bucketurl.OpenKnown(ctx, url)
	if err != nil {
		return "", err
	}
	defer func() { _ = b.Close() }() // it was read only
	o, err := b.Get(ctx, cluster.DocumentKey)
	if errors.Is(err, storage.ErrNotFound) {
		return "none", nil
	}
	if err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	d, err := document.Decode(o.Data)
	if err != nil {
		return "", fmt.Errorf("read the document: %w", err)
	}
	return d.LSN().String(), nil
}

// record appends what was done to the audit log.
func (r *recovery) record(s cluster.Survivor, failed error) error {
	if r.audit == "" || r.audit == "-" {
		return nil
	}
	who := "unknown"
	if u, err := user.Current(); err == nil {
		who = u.Username
	}
	e := v1.AuditEntry{
		Time: time.Now().UTC().Format(time.RFC3339Nano), Node: membership.NodeName(s.Server), Principal: "user " + who, Action: "cluster recover",
		Object: string(s.Server), LSN: s.LSN.String(), Outcome: "ok",
	}
	if failed != nil {
		e.Outcome = "failed"
	}
	line, err := json.Marshal(e)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(r.audit, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("the recovery is not in the audit log: %w", err)
	}
	_, err = f.Write(append(line, '\n'))
	return errors.Join(err, f.Sync(), f.Close())
}
