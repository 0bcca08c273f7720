package bucket

import (
	"slices"
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/queue"
	"osqueue/cmd/osqueue/view"
	"osqueue/cmd/osqueue/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offlineRun runs a command line that asks no cluster.
func offlineRun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Tree(readers).Command(t, "127.0.0.1:1").Run(args...)
}

// readers are the commands of this package, and those that read the queue.
func readers(g *view.Globals) []*cobra.Command {
	return slices.Concat(Commands(g), queue.Commands(g), work.Commands(g))
}
