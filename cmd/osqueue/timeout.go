package main

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/internal/cli/units"
)

// renamedTimeout is the flag --timeout of a command where it did not mean the client's
// timeout in earlier releases. Before the command it now does; after the command, it
// sets the flag that replaces it for one more release, with a warning. If both flags are
// given, --timeout is the client's.
type renamedTimeout struct {
	g     *globals
	flags *pflag.FlagSet
	place string // the flag that took its place
	span  units.Span
}

// renameTimeout binds --timeout to a command that has the flag place instead.
func (g *globals) renameTimeout(flags *pflag.FlagSet, place string) *renamedTimeout {
	r := &renamedTimeout{g: g, flags: flags, place: place}
	flags.Var(&r.span, "timeout", fmt.Sprintf("before the command, as in osqueue --timeout 5s …: %s; here it still sets --%s, with a warning", timeoutHelp, place))
	units.SpanVar(flags, &g.timeout, "answer-timeout", defaultTimeout, "the older name of --timeout")
	_ = flags.MarkHidden("answer-timeout") // the flag is there
	return r
}

// settle copies the value of --timeout to the flag that it stands for. The caller must
// call it before it uses either flag.
func (r *renamedTimeout) settle() error {
	switch {
	case !r.flags.Changed("timeout"):
		return nil
	case r.flags.Changed(r.place):
		return r.flags.Set("answer-timeout", time.Duration(r.span).String())
	}
	err := writePlain(r.g.stderr, fmt.Sprintf(
		"warning: --timeout behind the command still sets --%s in this release; write --%[1]s %s, or for the client's timeout osqueue --timeout %[2]s …\n",
		r.place, time.Duration(r.span).String()))
	if err != nil {
		return err
	}
	return r.flags.Set(r.place, time.Duration(r.span).String())
}

// leading reads the global flags before the command and returns the other arguments:
// there, --timeout is never a flag of the command.
func (g *globals) leading(root *cobra.Command, args []string) ([]string, error) {
	shared := root.PersistentFlags()
	for len(args) > 0 && strings.HasPrefix(args[0], "--") {
		name, _, whole := strings.Cut(strings.TrimPrefix(args[0], "--"), "=")
		flag := shared.Lookup(name)
		if flag == nil {
			break
		}
		n := 1
		if !whole && flag.NoOptDefVal == "" {
			n = min(2, len(args))
		}
		if err := shared.Parse(args[:n]); err != nil {
			return nil, usageFlags(root, err)
		}
		args = args[n:]
	}
	g.patience = shared.Changed("timeout")
	return args, nil
}
