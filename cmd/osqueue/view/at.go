package view

import (
	"time"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/units"
)

// moment is a flag whose value is a moment in the history of the queue.
type moment struct {
	client.Moment
	text string // as it was given
}

// String implements pflag.Value.
func (m *moment) String() string { return m.text }

// Type implements pflag.Value.
func (*moment) Type() string { return "LSN|time" }

// Set implements pflag.Value.
func (m *moment) Set(text string) (err error) {
	m.text = text
	if m.Moment, err = client.ParseLSN(text); err == nil {
		return nil
	}
	at, err := units.ParsePast(text, time.Now())
	m.Moment = client.Moment{Time: at}
	return err
}

// At adds --at to a command that only reads. With it the command shows an earlier state.
func (g *Globals) At(cmd *cobra.Command) *cobra.Command {
	m := new(moment)
	cmd.Flags().Var(m, "at", "show the state at "+units.AtHelp)
	run := cmd.RunE
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if m.text == "" {
			return run(cmd, args)
		}
		if watch := cmd.Flags().Lookup("watch"); watch != nil && watch.Changed {
			return Usagef("--at %s: an earlier state does not change; remove --watch", m.text)
		}
		g.at = m.Time
		cmd.SetContext(client.At(cmd.Context(), m.Moment))
		return run(cmd, args)
	}
	return cmd
}

// Now returns the time from which ages in the output count: that of the state that --at
// selects by a time, otherwise the present.
func (g *Globals) Now() time.Time {
	if !g.at.IsZero() {
		return g.at
	}
	return time.Now()
}
