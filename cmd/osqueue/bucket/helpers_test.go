package bucket

import (
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/admin"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/queue"
	"osqueue/cmd/osqueue/view"
	"osqueue/cmd/osqueue/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The scripts have a recorded bucket, with the URL $B and the directory $DIR.
func TestScripts(t *testing.T) {
	record := func(make func(testing.TB) *recorded) clitest.Cmd {
		return func(ts *testscript.TestScript, _ bool, _ []string) {
			r := make(clitest.FakeOf(ts).T)
			ts.Setenv("B", r.url())
			ts.Setenv("DIR", r.dir)
			ts.Setenv("TREE", treeOf(r.t, r.dir))
			ts.Setenv("OSQUEUE_SERVERS", "127.0.0.1:1") // no command asks a cluster
		}
	}
	clitest.Tree(readers).Scripts(t, map[string]clitest.Cmd{
		"story":  record(func(t testing.TB) *recorded { return story(t, true) }),
		"viewed": record(func(t testing.TB) *recorded { return story(t, false) }),
		"gapped": record(gapped),
		"living": record(func(t testing.TB) *recorded {
			r := story(t, true)
			r.flush(true, time.Now())
			return r
		}),
		// adoptable DIR checks that only an empty cluster may adopt the document in a directory
		"adoptable": func(ts *testscript.TestScript, _ bool, args []string) {
			doc, _ := stored(clitest.FakeOf(ts).T, ts.MkAbs(args[0]))
			adoptable(clitest.FakeOf(ts).T, doc)
		},
		// unchanged checks that nothing was written
		"unchanged": func(ts *testscript.TestScript, _ bool, _ []string) {
			if treeOf(clitest.FakeOf(ts).T, ts.Getenv("DIR")) != ts.Getenv("TREE") {
				ts.Fatalf("something was written")
			}
		},
		// damage N changes a bit of a segment of the log, $KEY
		"damage": func(ts *testscript.TestScript, _ bool, args []string) {
			r := &recorded{t: clitest.FakeOf(ts).T, dir: ts.Getenv("DIR")}
			n, err := strconv.Atoi(args[0])
			ts.Check(err)
			r.flip(r.segment(n))
			ts.Setenv("KEY", r.key(r.segment(n)))
			ts.Setenv("TREE", treeOf(r.t, r.dir))
		},
		// cut FILE N cuts a file to N bytes
		"cut": func(ts *testscript.TestScript, _ bool, args []string) {
			n, err := strconv.ParseInt(args[1], 10, 64)
			ts.Check(err)
			ts.Check(os.Truncate(args[0], n))
		},
		// says FILE compares stdout, apart from ages, sizes and the padding of columns
		"says": func(ts *testscript.TestScript, _ bool, args []string) {
			if got, want := ageless(ts.ReadFile("stdout")), ageless(ts.ReadFile(args[0])); got != want {
				ts.Fatalf("got\n%s\nwant\n%s", got, want)
			}
		},
	})
}

// offlineRun runs a command line that asks no cluster.
func offlineRun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.Tree(readers).Command(t, "127.0.0.1:1").Run(args...)
}

// readers are the commands of this package, and those that read the queue.
func readers(g *view.Globals) []*cobra.Command {
	return slices.Concat(Commands(g), queue.Commands(g), work.Commands(g), admin.Commands(g))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
