package clitest

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/rogpeppe/go-internal/testscript"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

func init() { time.Local = time.UTC } // the same output everywhere

// Cmd is a command of scripts.
type Cmd = func(ts *testscript.TestScript, neg bool, args []string)

// Scripts runs the scripts in testdata, each against a Fake of its own. They have the commands
// of testscript and these, in which \n, \r, \t and \e stand for control characters:
//
//	osqueue ARG… [<FILE | <<<TEXT]  runs a command line; it ends with 0, or with 1 after a "!"
//	exits CODE osqueue ARG…         runs one that ends with another code
//	answers TEXT osqueue ARG…       runs one whose stdin is a terminal, on which TEXT is typed
//	prints TEXT                     stdout is TEXT and a newline, and stderr is empty
//	out TEXT…, err TEXT…            stdout or stderr contains each TEXT; after a "!", none
//	lines N                         stdout has N lines
//	sent [REQUEST…]                 the requests that changed something, since the last "sent", are
//	                                these: method, path and body, in which … stands for anything
//	jobs                            prints the jobs of the fake as lines of JSON
//	refuse [N:]REQUEST CODE TAG DETAIL  the fake refuses requests that begin like this, from the Nth on
//	reply REQUEST BODY              the fake answers a request, method and path, with this body
//	node JSON                       changes members of the fake's status
//
// A package adds commands of its own. If a script has a file jobs, its lines are the jobs that
// the fake has at first.
func (tree Tree) Scripts(t *testing.T, more map[string]Cmd) {
	cmds := map[string]Cmd{
		"osqueue": func(ts *testscript.TestScript, neg bool, args []string) {
			tree.Exits(context.Background(), ts, exitOf(neg), args...)
		},
		"exits": func(ts *testscript.TestScript, _ bool, args []string) {
			code, err := strconv.Atoi(args[0])
			ts.Check(err)
			tree.Exits(context.Background(), ts, code, args[2:]...)
		},
		"answers": func(ts *testscript.TestScript, neg bool, args []string) {
			tree.exits(context.Background(), ts, exitOf(neg), append(args[2:], "<<<"+args[0]), true)
		},
		"prints": prints, "out": contains("stdout"), "err": contains("stderr"), "lines": countLines,
		"sent": sent, "refuse": refuse, "jobs": printJobs, "reply": reply, "node": changeNode,
	}
	maps.Copy(cmds, more)
	testscript.Run(t, testscript.Params{Dir: "testdata", Cmds: cmds, Setup: setup})
}

func setup(e *testscript.Env) error {
	q := NewFake(e.T().(testing.TB))
	e.Values[fakeKey{}] = q
	e.Setenv("OSQUEUE_SERVERS", q.Server.URL)
	e.Setenv("HOST", q.Server.Listener.Addr().String())
	text, err := os.ReadFile(filepath.Join(e.WorkDir, "jobs"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	for line := range strings.Lines(string(text)) {
		j := new(v1.Job)
		err = errors.Join(err, json.Unmarshal([]byte(line), j, json.RejectUnknownMembers(true)))
		q.Jobs = append(q.Jobs, j)
	}
	return err
}

func exitOf(failure bool) int {
	if failure {
		return view.ExitFailure
	}
	return view.ExitOK
}

type fakeKey struct{}

// FakeOf returns the fake of a script.
func FakeOf(ts *testscript.TestScript) *Fake { return ts.Value(fakeKey{}).(*Fake) }

var controls = strings.NewReplacer(`\n`, "\n", `\r`, "\r", `\t`, "\t", `\e`, "\x1b")

// Exits runs a command line of a script, which must end with the code. It is cancelled after 20 s.
func (tree Tree) Exits(ctx context.Context, ts *testscript.TestScript, code int, args ...string) {
	tree.exits(ctx, ts, code, args, false)
}

func (tree Tree) exits(ctx context.Context, ts *testscript.TestScript, code int, args []string, terminal bool) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	g := &view.Globals{
		Version: "devel", Out: ts.Stdout(), Err: ts.Stderr(), Getenv: ts.Getenv, Terminal: func() bool { return terminal },
	}
	if last := len(args) - 1; last >= 0 && strings.HasPrefix(args[last], "<") {
		if text, ok := strings.CutPrefix(args[last], "<<<"); ok {
			g.In = strings.NewReader(controls.Replace(text))
		} else {
			g.In = strings.NewReader(ts.ReadFile(args[last][1:]))
		}
		args = args[:last]
	}
	if got := view.Execute(ctx, args, g, view.NewRoot(g, tree(g)...)); got != code {
		ts.Fatalf("exit status %d, want %d", got, code)
	}
}

func prints(ts *testscript.TestScript, _ bool, args []string) {
	if got, want := ts.ReadFile("stdout"), controls.Replace(args[0])+"\n"; got != want {
		ts.Fatalf("stdout is\n%swant\n%s", got, want)
	}
	if got := ts.ReadFile("stderr"); got != "" {
		ts.Fatalf("stderr is not empty")
	}
}

func contains(stream string) Cmd {
	return func(ts *testscript.TestScript, neg bool, args []string) {
		for _, text := range args {
			if strings.Contains(ts.ReadFile(stream), controls.Replace(text)) == neg {
				ts.Fatalf("%q is missing in %s, or must not be in it", text, stream)
			}
		}
	}
}

func countLines(ts *testscript.TestScript, _ bool, args []string) {
	if n := strings.Count(ts.ReadFile("stdout"), "\n"); fmt.Sprint(n) != args[0] {
		ts.Fatalf("stdout has %d lines", n)
	}
}

func sent(ts *testscript.TestScript, _ bool, want []string) {
	var got []string
	for _, r := range FakeOf(ts).Writes() {
		got = append(got, strings.TrimSpace(r.Line+" "+r.Body))
	}
	same := func(got, want string) bool {
		return regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(want), "…", ".*") + "$").MatchString(got)
	}
	if !slices.EqualFunc(got, want, same) {
		ts.Fatalf("sent\n%s", strings.Join(got, "\n"))
	}
}

func printJobs(ts *testscript.TestScript, _ bool, _ []string) {
	for _, j := range FakeOf(ts).All() {
		ts.Check(json.MarshalWrite(ts.Stdout(), j))
		fmt.Fprintln(ts.Stdout())
	}
}

func refuse(ts *testscript.TestScript, _ bool, args []string) {
	status, err := strconv.Atoi(args[1])
	ts.Check(err)
	q := FakeOf(ts)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	request, later := args[0], 0
	if n, rest, ok := strings.Cut(request, ":"); ok {
		later, err = strconv.Atoi(n)
		ts.Check(err)
		request = rest
	}
	q.Refuse = func(r *http.Request) *v1.Problem {
		if !strings.HasPrefix(r.Method+" "+r.URL.Path, request) {
			return nil
		}
		if later--; later > 0 {
			return nil
		}
		return &v1.Problem{Status: status, Tag: args[2], Detail: args[3], Committed: v1.CommittedNo}
	}
}

func reply(ts *testscript.TestScript, _ bool, args []string) {
	q := FakeOf(ts)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	q.Replies[args[0]] = args[1]
}

func changeNode(ts *testscript.TestScript, _ bool, args []string) {
	q := FakeOf(ts)
	q.Mu.Lock()
	defer q.Mu.Unlock()
	ts.Check(json.Unmarshal([]byte(args[0]), &q.Status, json.RejectUnknownMembers(true)))
}
