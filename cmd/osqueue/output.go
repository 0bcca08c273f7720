package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// defaultServers are the nodes that "osqueue dev" starts.
const defaultServers = "127.0.0.1:8080,127.0.0.1:8081,127.0.0.1:8082"

const defaultTimeout = 10 * time.Second

const timeoutHelp = "how long to try to get an answer from the cluster"

// exitHelp ends the help of every command that talks to a cluster.
const exitHelp = "Exit status: 0 if all went well, 1 if something failed, 2 if the command was used wrongly."

// The exit statuses.
const (
	exitOK = iota
	exitFailure
	exitUsage
)

// globals are the flags that all commands share, and the streams that they use, so that
// tests run commands without a process.
type globals struct {
	servers  []string
	json     bool
	timeout  time.Duration
	patience bool // --timeout was given before the command
	ack      client.Ack
	receipt  client.Receipt // of the writes of this process

	stdin  io.Reader
	stdout io.Writer
	stderr io.Writer
	getenv func(string) string
	// terminal reports whether stdin is a terminal; nil examines stdin.
	terminal func() bool
}

// newGlobals returns globals on the process's own streams and environment.
func newGlobals() *globals {
	return &globals{stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr, getenv: os.Getenv}
}

// bind adds the flags to a root command's persistent ones. The environment is
// read here: a flag beats it.
func (g *globals) bind(flags *pflag.FlagSet) {
	servers := g.getenv("OSQUEUE_SERVERS")
	if servers == "" {
		servers = defaultServers
	}
	flags.StringSliceVar(&g.servers, "servers", strings.Split(servers, ","),
		"nodes of the cluster, as host:port or URL (environment: OSQUEUE_SERVERS)")
	flags.BoolVar(&g.json, "json", false, "write JSON, for programs")
	spanVar(flags, &g.timeout, "timeout", defaultTimeout, timeoutHelp)
	flags.Var((*ackFlag)(&g.ack), "ack", "how safe writes are when they are answered: quorum or object (default: the server's choice)")
}

// client returns a client of the cluster that the flags name.
func (g *globals) client() (*client.Client, error) { return g.clientWith(nil) }

// clientWith returns a client like client does, with changes to its configuration.
func (g *globals) clientWith(change func(*client.Config)) (*client.Client, error) {
	if g.timeout <= 0 {
		return nil, usagef("--timeout %v: must be positive", g.timeout)
	}
	cfg := client.Config{
		Servers:        g.servers,
		AttemptTimeout: min(g.timeout, client.DefaultAttemptTimeout),
		RetryFor:       g.timeout,
		Ack:            g.ack,
		AckWait:        g.timeout,
		UserAgent:      "osqueue-cli",
	}
	if change != nil {
		change(&cfg)
	}
	c, err := client.New(cfg)
	if err != nil {
		return nil, &usageError{err: fmt.Errorf("--servers: %w", err)}
	}
	return c, nil
}

// withClient runs fn with a client and a context of at most --timeout.
func (g *globals) withClient(ctx context.Context, fn func(context.Context, *client.Client) error) error {
	c, err := g.client()
	if err != nil {
		return err
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(ctx, g.timeout)
	defer cancel()
	return g.acked(ctx, func(ctx context.Context) error { return fn(ctx, c) })
}

// writeJSON writes v as one line.
func (g *globals) writeJSON(v any) error {
	line, err := json.Marshal(v, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true), json.Deterministic(true))
	if err != nil {
		return fmt.Errorf("write as JSON: %w", err)
	}
	return write(g.stdout, string(line)+"\n")
}

// printf writes text for people to stdout.
func (g *globals) printf(format string, args ...any) error {
	return writePlain(g.stdout, fmt.Sprintf(format, args...))
}

// writePlain writes a text for people.
func writePlain(w io.Writer, text string) error { return write(w, plain(text)) }

// write writes a text unchanged.
func write(w io.Writer, text string) error {
	if _, err := io.WriteString(w, text); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// table writes rows of aligned cells to stdout. The last cell of a row may have several
// lines; each stays in its column, so that a line never looks like a row.
func (g *globals) table(rows [][]string) error {
	w := tabwriter.NewWriter(g.stdout, 0, 0, 2, ' ', 0)
	for _, cells := range rows {
		end := len(cells) - 1
		last := strings.ReplaceAll(cells[end], "\t", "    ") // no cells of its own
		last = strings.ReplaceAll(last, "\n", "\n"+strings.Repeat("\t", end))
		row := append(slices.Clone(cells[:end]), last)
		if err := writePlain(w, strings.Join(row, "\t")+"\n"); err != nil {
			return err
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the output: %w", err)
	}
	return nil
}

// usageError reports that the user called a command wrongly.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }
func (e *usageError) Unwrap() error { return e.err }

func usagef(format string, args ...any) error { return &usageError{err: fmt.Errorf(format, args...)} }

// usageArgs turns the errors of an argument check into usage errors.
func usageArgs(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return &usageError{err: fmt.Errorf("%w\nUsage: %s", argsError(cmd, args, err), cmd.UseLine())}
		}
		return nil
	}
}

// argsError names the argument that is missing or superfluous; cobra only counts them.
func argsError(cmd *cobra.Command, args []string, err error) error {
	var wanted []string
	for _, word := range strings.Fields(cmd.Use)[1:] {
		if word = strings.TrimSuffix(word, "…"); word != strings.ToUpper(word) || !isLetter(word[0]) {
			break
		}
		wanted = append(wanted, word)
	}
	switch {
	case len(args) < len(wanted):
		return fmt.Errorf("%s is missing", wanted[len(args)])
	case strings.HasPrefix(err.Error(), "accepts"), !cmd.HasSubCommands() && strings.HasPrefix(err.Error(), "unknown command"):
		return fmt.Errorf("too many arguments: %s", strings.Join(args, " "))
	}
	return err
}

func isLetter(c byte) bool { return c >= 'A' && c <= 'Z' }

// numberFault matches the errors of strconv.
var numberFault = regexp.MustCompile(`strconv\.\w+: parsing .*: (invalid syntax|value out of range)`)

// usageFlags turns flag errors into usage errors, for cobra's SetFlagErrorFunc.
func usageFlags(cmd *cobra.Command, err error) error {
	text := numberFault.ReplaceAllStringFunc(err.Error(), func(fault string) string {
		switch {
		case strings.Contains(fault, "ParseBool"):
			return "write true or false"
		case strings.Contains(fault, "ParseFloat"):
			return "write a number"
		case strings.Contains(fault, "out of range"):
			return "the number is too large"
		}
		return "write a whole number"
	})
	return &usageError{err: fmt.Errorf("%s\nUsage: %s", text, cmd.UseLine())}
}

// silentError fails the command without a message, because the command has printed one.
type silentError struct{}

func (silentError) Error() string { return "failed" }

// exitCode returns the exit status for err.
func exitCode(err error) int {
	var usage *usageError
	var status *exitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &status):
		return status.code
	}
	return exitFailure
}

// hideGlobals hides the named global flags and --ack from a command's help, because they
// have no effect on the command.
func hideGlobals(cmd *cobra.Command, names ...string) {
	cmd.SetHelpFunc(func(c *cobra.Command, args []string) {
		for _, name := range append(names, "ack") {
			if flag := c.InheritedFlags().Lookup(name); flag != nil {
				flag.Hidden = true // affects only this process, which prints the help and exits
			}
		}
		c.Root().HelpFunc()(c, args)
	})
}

// printError writes err to stderr, with the next step for the user.
func (g *globals) printError(err error) {
	if err == nil || errors.As(err, new(silentError)) {
		return
	}
	text := plain("osqueue: " + explain(err, g.timeout))
	if g.json {
		text = errorJSON(err)
	}
	_, _ = fmt.Fprintln(g.stderr, text) // there is no other place to report it
}

const startHint = `start a cluster with "osqueue dev", or name its nodes with --servers or OSQUEUE_SERVERS`

// notOfNodes lists statuses that come from another program if the answer has no tag.
var notOfNodes = []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusNotImplemented}

const otherHint = `is it a node of osqueue that answers there? --servers or OSQUEUE_SERVERS name the nodes`

const pathHint = `the node does not have that path: leave paths out of --servers and OSQUEUE_SERVERS; if there is none, the node is older than this command`

// explain adds the next step for the user to errors of the client.
func explain(err error, timeout time.Duration) string {
	var e *client.Error
	switch {
	case !errors.As(err, &e):
		return err.Error()
	case e.Tag == "" && slices.Contains(notOfNodes, e.Status):
		return err.Error() + "\n" + otherHint
	case e.Tag == v1.TagNoRoute:
		return err.Error() + "\n" + pathHint
	case !e.Unreachable():
		return err.Error()
	}
	if err.Error() != e.Error() { // the error adds text to the client's
		return err.Error() + "\n" + startHint
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s:\n", e.Op, unreached(e, timeout))
	for _, t := range e.Tried {
		fmt.Fprintf(&b, "  %s  %v\n", t.Server, t.Err)
	}
	if e.Committed == client.CommittedUnknown {
		b.WriteString("It is not known whether the request took effect.\n")
	}
	b.WriteString(startHint)
	return b.String()
}

// unreached describes why no server could be reached.
func unreached(e *client.Error, timeout time.Duration) string {
	if slices.ContainsFunc(e.Tried, func(t client.Try) bool { return !errors.Is(t.Err, syscall.ECONNREFUSED) }) {
		return fmt.Sprintf("no server could be reached within %v", timeout)
	}
	return "no server accepts connections"
}

// errorJSON formats err as JSON for programs.
func errorJSON(err error) string {
	type tried struct {
		Server string `json:"server"`
		Error  string `json:"error"`
	}
	out := struct {
		Error     string  `json:"error"`
		Op        string  `json:"op,omitzero"`
		Status    int     `json:"status,omitzero"`
		Tag       string  `json:"_tag,omitzero"`
		Committed string  `json:"committed,omitzero"`
		Tried     []tried `json:"tried,omitempty"`
	}{Error: err.Error()}
	var e *client.Error
	if errors.As(err, &e) {
		out.Op, out.Status, out.Tag, out.Committed = e.Op, e.Status, e.Tag, string(e.Committed)
		for _, t := range e.Tried {
			out.Tried = append(out.Tried, tried{Server: t.Server, Error: t.Err.Error()})
		}
	}
	line, fault := json.Marshal(out, jsontext.AllowInvalidUTF8(true))
	if fault != nil {
		return `{"error":"unprintable"}` // not reached: all fields are texts and numbers
	}
	return string(line)
}
