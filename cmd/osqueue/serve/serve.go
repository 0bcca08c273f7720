package serve

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
	"osqueue/internal/limit"
)

func newServeCommand(g *view.Globals) *cobra.Command {
	o := newOptions()
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run one node of a cluster",
		Long: `Run one node of a cluster. Start the same command on every node, with its own
--name and addresses and the same --peers and --bucket.

Every setting is a flag, an environment variable (--raft-addr is OSQUEUE_RAFT_ADDR)
and a field of the YAML file of --config (raft-addr: 10.0.0.1:7080). A flag comes before
the environment, and that before the file. No file is read unless --config or
OSQUEUE_CONFIG names it. docs/settings.md lists all settings; the flags below are those
that most clusters need.

The environment of the legacy broker (BROKER_HOST, STORAGE_BACKEND, …) counts if nothing
else has a setting: docs/migrating.md lists it.

SIGTERM, Ctrl-C and osqueue node drain stop the node gracefully: leadership is handed over
first. systemd is told when the node serves and that it lives (Type=notify, WatchdogSec).
SIGHUP, and a change of the file of --config or --roles-file, let the node read its
settings again: it applies those that can change while it runs, and logs which ones need
a restart. SIGHUP also opens the file of --audit-log again. osqueue config check serve
with the same flags checks the settings before.`,
		Example: `  # a single node
  osqueue serve --data ./data --bucket file:///srv/osqueue

  # with the file that osqueue init has made
  osqueue serve --config certs/n1.yaml

  # node n1 of three, without a file
  osqueue serve --name n1 --data /var/lib/osqueue --bucket s3://jobs/prod?region=eu-central-1 \
    --tls-ca ca.crt --tls-cert n1.crt --tls-key n1.key --bootstrap-token bootstrap.json \
    --http-addr 10.0.0.1:8080 --raft-addr 10.0.0.1:7080 \
    --peers n1=10.0.0.1:8080,n2=10.0.0.2:8080,n3=10.0.0.3:8080`,
		PreRunE: func(cmd *cobra.Command, _ []string) error { return o.load(cmd.Flags(), g.Getenv) },
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := o.complete(g); err != nil {
				return &view.UsageError{Err: err}
			}
			ctx := cmd.Context()
			if o.withStdin {
				var stop context.CancelFunc
				ctx, stop = untilEOF(ctx, g.In)
				defer stop()
			}
			return serve(ctx, g, o)
		},
	}
	o.bind(cmd.Flags())
	cmd.SetUsageFunc(func(cmd *cobra.Command) error { return o.usage(g, cmd) })
	return cmd
}

// untilEOF returns a context that ends with r. Its goroutine cannot be stopped; it ends
// with the process.
func untilEOF(ctx context.Context, r io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		_, _ = io.Copy(io.Discard, r) // an error ends it as well
		cancel()
	}()
	return ctx, cancel
}

// serve runs a node until ctx ends.
func serve(ctx context.Context, g *view.Globals, o *serveOptions) error {
	collecting, end := context.WithCancel(ctx)
	var wg sync.WaitGroup
	budget := limit.NewBudget(o.inflightBytes)
	wg.Go(func() { newCollector(o.memoryTarget, budget.Used).run(collecting) })
	log := o.node.Logger
	if o.tls.identity != nil {
		wg.Go(func() { o.tls.watchExpiry(collecting, log) })
	}
	defer wg.Wait()
	defer end()
	log.Info("starting", "version", o.node.Version, "data", o.node.DataDir, "pid", pid())
	r := newReloader(g, o)
	defer r.close()
	guard := newExitGuard(log, os.Exit)
	defer guard.stop()
	stopped := context.AfterFunc(ctx, func() { guard.within(stopLimit) }) // also if the start hangs
	defer stopped()
	s, err := assemble(ctx, o, budget)
	if err != nil {
		guard.within(fatalLimit)
		return notStarted(ctx, log, err)
	}
	return s.run(ctx, guard, r)
}

// notStarted returns err, or nil if ctx ended during the start, because a stop is no
// failure.
func notStarted(ctx context.Context, log hclog.Logger, err error) error {
	if ctx.Err() == nil {
		return err
	}
	log.Info("stopped while starting", "reason", err)
	return nil
}

// CheckFlags checks flags for a node before any node starts.
func CheckFlags(g *view.Globals, args []string) error {
	node := newOptions()
	flags := pflag.NewFlagSet("serve", pflag.ContinueOnError)
	node.bind(flags)
	if err := flags.Parse(args); err != nil {
		return fmt.Errorf("flags for the nodes: %w", err)
	}
	if flags.NArg() > 0 {
		return fmt.Errorf("flags for the nodes: %q is not a flag", flags.Arg(0))
	}
	if err := node.fromFile(); err != nil {
		return err
	}
	if node.bucket == "" {
		node.bucket = "mem://" // dev gives the real one
	}
	if err := node.complete(g); err != nil {
		return fmt.Errorf("flags for the nodes: %w", err)
	}
	return nil
}

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command { return []*cobra.Command{newServeCommand(g)} }
