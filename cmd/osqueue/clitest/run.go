// Package clitest runs command lines in tests, against a fake of one node with just enough
// of a queue for the commands. Only tests import it.
package clitest

import (
	"bytes"
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Result is the outcome of a command line.
type Result struct {
	Out, Err string
	Code     int
}

// Command is a command line to be run against a Fake, or none.
type Command struct {
	tree  Tree
	t     *testing.T
	Ctx   context.Context
	Stdin io.Reader
	Env   map[string]string
	Out   *Buffer
	err   *Buffer
	Tty   bool // stdin counts as a terminal
}

// Tree returns the commands of a package, which use the flags and streams of g.
type Tree func(g *view.Globals) []*cobra.Command

// Command returns a command line of tree against servers. It is cancelled after 20 s.
func (tree Tree) Command(t *testing.T, servers ...string) *Command {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return &Command{
		tree: tree,
		t:    t, Ctx: ctx, Out: &Buffer{}, err: &Buffer{},
		Env: map[string]string{"OSQUEUE_SERVERS": strings.Join(servers, ",")},
	}
}

// Run runs the command line and returns its outcome.
func (c *Command) Run(args ...string) Result {
	c.t.Helper()
	g := &view.Globals{Version: "devel", In: c.Stdin, Out: c.Out, Err: c.err, Getenv: func(name string) string { return c.Env[name] }}
	g.Terminal = func() bool { return c.Tty }
	code := view.Execute(c.Ctx, args, g, view.NewRoot(g, c.tree(g)...))
	return Result{Out: c.Out.String(), Err: c.err.String(), Code: code}
}

// Run runs a command line with a short stdin.
func (tree Tree) Run(t *testing.T, q *Fake, stdin string, args ...string) Result {
	t.Helper()
	c := tree.Command(t, q.Server.URL)
	if stdin != "" {
		c.Stdin = strings.NewReader(stdin)
	}
	return c.Run(args...)
}

// Buffer is a buffer that a command writes while its test reads.
type Buffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// Evil is a text that clears the screen, sets a title in two ways, and changes the
// direction of writing.
const Evil = "\x1b[2Jevil\u009b1m\u202e\a"

// EvilShown is Evil as text for people shows it.
const EvilShown = `\x1b[2Jevil\u009b1m\u202e\a`

// Harmless fails the test if a text contains a character that controls a terminal.
func Harmless(t *testing.T, where, text string) {
	t.Helper()
	for i, r := range text {
		if r != '\n' && r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r)) {
			t.Errorf("%s: %q at %d of\n%q", where, r, i, text)
			return
		}
	}
}
