// Command osqueue contains the server, the worker and the tools of the queue in one
// binary.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/google/uuid"
	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	_ "golang.org/x/crypto/x509roots/fallback"

	"osqueue/cmd/osqueue/admin"
	"osqueue/cmd/osqueue/apply"
	"osqueue/cmd/osqueue/bucket"
	"osqueue/cmd/osqueue/config"
	"osqueue/cmd/osqueue/dev"
	"osqueue/cmd/osqueue/queue"
	"osqueue/cmd/osqueue/serve"
	"osqueue/cmd/osqueue/top"
	"osqueue/cmd/osqueue/view"
	"osqueue/cmd/osqueue/work"
	"osqueue/internal/build"
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
	code := run(ctx, os.Args[1:], view.NewGlobals(build.Get().Version))
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
		config.Commands(g, config.Program{Name: "serve", Settings: serve.Settings}, config.Program{Name: "worker", Settings: work.Settings}),
		apply.Commands(g),
		[]*cobra.Command{newManCommand(g), newVersionCommand(g)},
	)
}

// newManCommand returns the command that writes the manual pages of all commands.
func newManCommand(g *view.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Writes a manual page of section 1 for each command into DIR, for packages and for
man. SOURCE_DATE_EPOCH sets their date.`,
		Example: `  osqueue man man1 && man -l man1/osqueue-submit.1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the directory of the pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			head := &doc.GenManHeader{Section: "1", Source: "osqueue " + g.Version, Manual: "osqueue"}
			if err := doc.GenManTree(root, head, args[0]); err != nil {
				return fmt.Errorf("write the pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "osqueue*.1"))
			if err != nil {
				return err
			}
			return g.Printf("%s in %s\n", view.Plural(len(pages), "page"), args[0])
		},
	}
	return cmd
}

func newVersionCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary, its commit, and what it was built with",
		RunE: func(*cobra.Command, []string) error {
			b := build.Get()
			if g.JSON {
				return g.WriteJSON(b)
			}
			return g.Printf("osqueue %s\ncommit %s\ndate %s\ngo %s\nfeature level %d\n",
				b.Version, view.OrDash(b.Commit), view.OrDash(b.Date), b.Go, b.FeatureLevel)
		},
	}
}
