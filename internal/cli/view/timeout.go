package view

import (
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/internal/cli/units"
)

// RenamedTimeout is the flag --timeout of a command where it did not mean the client's
// timeout in earlier releases. Before the command it now does; after the command, it
// sets the flag that replaces it for one more release, with a warning. If both flags are
// given, --timeout is the client's.
type RenamedTimeout struct {
	g     *Globals
	flags *pflag.FlagSet
	place string // the flag that took its place
	span  units.Span
}

// RenameTimeout binds --timeout to a command that has the flag place instead.
func (g *Globals) RenameTimeout(flags *pflag.FlagSet, place string) *RenamedTimeout {
	r := &RenamedTimeout{g: g, flags: flags, place: place}
	flags.Var(&r.span, "timeout", fmt.Sprintf("%s, if given before the command (osqueue --timeout 5s …); after the command it sets --%s, with a warning", timeoutHelp, place))
	units.SpanVar(flags, &g.Timeout, "answer-timeout", defaultTimeout, "the older name of --timeout")
	_ = flags.MarkHidden("answer-timeout") // the flag is there
	return r
}

// Settle copies the value of --timeout to the flag that it stands for. The caller must
// call it before it uses either flag.
func (r *RenamedTimeout) Settle() error {
	switch {
	case !r.flags.Changed("timeout"):
		return nil
	case r.flags.Changed(r.place):
		return r.flags.Set("answer-timeout", time.Duration(r.span).String())
	}
	err := WritePlain(r.g.Err, fmt.Sprintf(
		"warning: --timeout after the command sets --%s in this release only; write --%[1]s %s, or for the client's timeout osqueue --timeout %[2]s …\n",
		r.place, time.Duration(r.span).String()))
	if err != nil {
		return err
	}
	return r.flags.Set(r.place, time.Duration(r.span).String())
}

// leading reads the global flags before the command and returns the other arguments:
// there, --timeout is never a flag of the command.
func (g *Globals) leading(root *cobra.Command, args []string) ([]string, error) {
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
	g.Patience = shared.Changed("timeout")
	return args, nil
}
