// Command osqueue contains the server, the worker and the tools of the queue in one
// binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	// CA certificates for images without any.
	_ "golang.org/x/crypto/x509roots/fallback"

	"osqueue/cmd/osqueue/admin"
	"osqueue/cmd/osqueue/bucket"
	"osqueue/cmd/osqueue/dev"
	"osqueue/cmd/osqueue/queue"
	"osqueue/cmd/osqueue/serve"
	"osqueue/cmd/osqueue/top"
	"osqueue/cmd/osqueue/view"
	"osqueue/cmd/osqueue/work"
	"osqueue/internal/host"
	"osqueue/internal/sandbox"
)

// timerSlack is how late the timers of a node may fire.
const timerSlack = time.Millisecond

func main() {
	sandbox.RunHelper()
	if len(os.Args) > 1 && os.Args[1] == "serve" {
		uuid.EnableRandPool()                                    // ids of jobs are no secrets; without a pool each takes an allocation more
		if err := host.RaiseTimerSlack(timerSlack); err != nil { // costs CPU time, nothing else
			fmt.Fprintf(os.Stderr, "osqueue: this node takes more CPU time than necessary: %v\n", err)
		}
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], view.NewGlobals(version))
	stop()
	os.Exit(code)
}

// run executes one command line and returns the exit code.
func run(ctx context.Context, args []string, g *view.Globals) int {
	root := view.NewRoot(g, commands(g)...)
	root.Short = "A job queue for people who have a bucket and three small machines"
	root.Long = `osqueue is a job queue that needs no database: three nodes agree on every job
through raft, and the state goes to a bucket (S3, GCS, a directory), from
which everything can be rebuilt.

Try it with "osqueue dev".

` + view.ExitHelp
	return view.Execute(ctx, args, g, root)
}

// commands returns all commands of the program.
func commands(g *view.Globals) []*cobra.Command {
	return slices.Concat(
		dev.Commands(g, serve.CheckFlags),
		serve.Commands(g),
		work.Commands(g),
		queue.Commands(g),
		admin.Commands(g),
		top.Commands(g),
		bucket.Commands(g),
		[]*cobra.Command{newManCommand(g), newVersionCommand(g)},
	)
}
