package dev

import (
	"context"
	"errors"
	"os/signal"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// newDevCommand returns the command dev. checkServe checks flags for the nodes as serve
// does.
func newDevCommand(g *view.Globals, checkServe func(g *view.Globals, flags []string) error) *cobra.Command {
	var o devOptions
	cmd := &cobra.Command{
		Use:   "dev [-- SERVE-FLAGS]",
		Short: "Run a three-node cluster on this machine, to try things out",
		Long: `Runs a cluster of three node processes on loopback, with a directory as its bucket.
Ctrl-C stops all of them. You can kill a node to watch a failover;
"osqueue dev restart n1" starts it again.

The nodes have certificates of their own CA and require access tokens. dev keeps
servers, CA and a token of the role admin in the context dev (dev-PORT with another
--http-port), which commands use unless another context is the current one. With
--insecure there are no certificates and tokens: every user and program of this machine
can control the queue.

Flags after -- are flags of serve, for every node.`,
		Example: `  osqueue dev
  osqueue dev --http-port 9080 --raft-port 9180 --dir ./dev -- --lease 5s --log-level debug`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 && cmd.ArgsLenAtDash() != 0 {
				return view.Usagef("%q: dev takes no arguments; write flags for the nodes after --\nUsage: %s", args[0], cmd.UseLine())
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			o.serve = args
			err := o.validate()
			if err == nil {
				err = checkServe(g, args)
			}
			if err != nil {
				return &view.UsageError{Err: err}
			}
			return runDev(cmd.Context(), g, o)
		},
	}
	f := cmd.Flags()
	f.StringVar(&o.dir, "dir", "", "directory for everything, kept afterwards (default: a temporary one, removed at the end)")
	f.StringVar(&o.bucket, "bucket", "", "bucket URL (default: a directory under --dir)")
	f.IntVar(&o.nodes, "nodes", 3, "number of nodes")
	f.BoolVar(&o.insecure, "insecure", false, "no certificates and no access tokens, only plain HTTP on loopback")
	cmd.PersistentFlags().IntVar(&o.httpPort, "http-port", defaultPort, "HTTP port of the first node; the others follow")
	f.IntVar(&o.raftPort, "raft-port", 7080, "raft port of the first node; the others follow")
	cmd.AddCommand(&cobra.Command{
		Use:   "restart NODE",
		Short: "Start a killed node of the running dev cluster again",
		RunE: func(cmd *cobra.Command, args []string) error {
			return devRestart(cmd.Context(), g, o.httpPort, args[0])
		},
	})
	return cmd
}

// runDev runs the cluster until ctx ends.
func runDev(ctx context.Context, g *view.Globals, o devOptions) (err error) {
	ctx, stop := untilHangup(ctx)
	defer stop()
	if err := o.portsFree(); err != nil {
		return err
	}
	control, err := listenControl(o.httpPort)
	if err != nil {
		return err
	}
	cleanUp, err := o.makeDir()
	if err != nil {
		return errors.Join(err, control.Close())
	}
	defer func() {
		if err == nil { // else the logs are needed
			cleanUp()
		}
	}()
	if err := o.makeCerts(time.Now()); err != nil {
		return errors.Join(err, control.Close())
	}
	d := newDevCluster(g, o)
	defer d.forget()
	defer d.stopAll()
	for i := range o.nodes {
		if err := d.start(i); err != nil {
			return errors.Join(err, control.Close())
		}
	}
	stopControl := d.serveControl(control)
	defer stopControl()
	c, err := o.client()
	if err != nil {
		return err
	}
	defer c.Close()
	return d.watch(ctx, c)
}

// untilHangup ends ctx also when the terminal is closed, unless SIGHUP is ignored, as
// under nohup.
func untilHangup(ctx context.Context) (context.Context, context.CancelFunc) {
	if signal.Ignored(syscall.SIGHUP) {
		return context.WithCancel(ctx)
	}
	return signal.NotifyContext(ctx, syscall.SIGHUP)
}

// Commands returns the commands of this package, which use the flags and streams of g.
// checkServe checks flags for the nodes as serve does.
func Commands(g *view.Globals, checkServe func(g *view.Globals, flags []string) error) []*cobra.Command {
	return []*cobra.Command{newDevCommand(g, checkServe)}
}
