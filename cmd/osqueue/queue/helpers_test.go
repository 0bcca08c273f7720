package queue

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var osq = clitest.Tree(Commands)

func TestScripts(t *testing.T) {
	osq.Scripts(t, map[string]clitest.Cmd{
		// seq FILE FORMAT N writes a line for each number from 1 to N
		"seq": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[2])
			ts.Check(err)
			var text []byte
			for i := range n {
				text = fmt.Appendf(text, args[1]+"\n", i+1)
			}
			ts.Check(os.WriteFile(ts.MkAbs(args[0]), text, 0o600))
		},
		// batches N… checks the sizes of the batches that were enqueued
		"batches": func(ts *testscript.TestScript, _ bool, args []string) {
			q := clitest.FakeOf(ts)
			slices.Sort(q.Batches)
			if got := fmt.Sprint(q.Batches); got != fmt.Sprint(args) {
				ts.Fatalf("the batches have the sizes %s", got)
			}
		},
		// interrupted N osqueue ARG… interrupts a command line when there are N jobs
		"interrupted": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.Atoi(args[0])
			ts.Check(err)
			ctx, stop := context.WithCancel(context.Background())
			defer stop()
			whenJobs(ctx, clitest.FakeOf(ts), n, stop)
			osq.Exits(ctx, ts, view.ExitInterrupted, args[2:]...)
		},
	})
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
