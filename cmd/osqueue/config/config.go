package config

import (
	"fmt"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/view"
)

// Program is a command with settings.
type Program struct {
	Name     string
	Settings func(*view.Globals, *pflag.FlagSet) view.Settings // adds its flags
}

// Commands returns the commands of this package, for the settings of programs.
func Commands(g *view.Globals, programs ...Program) []*cobra.Command {
	cmd := view.NewGroup("config", "Show and check the settings of a node or a worker, without starting it",
		`Shows and checks the settings of a node or a worker. Write osqueue config show or osqueue
config check in place of osqueue, and leave the rest of the command line as it is.`)
	show := view.NewGroup("show", "Show each setting and where its value comes from",
		`Shows each setting, its value and the source of the value: a flag, an environment
variable, a line of the file of --config, or the default. Secrets are not shown.`)
	check := view.NewGroup("check", "Check the settings as a start would",
		`Checks the settings, and the files that they name, as a start would, and does not start
anything. Warnings go to stderr.`)
	cmd.AddCommand(show, check)
	for _, p := range programs {
		show.AddCommand(newCommand(g, p, "Show each setting of osqueue "+p.Name+" and where its value comes from", "osqueue config show "+p.Name+" --config "+p.Name+".yaml", printSettings))
		check.AddCommand(newCommand(g, p, "Check the settings of osqueue "+p.Name, "osqueue config check "+p.Name+" --config "+p.Name+".yaml", checkSettings))
	}
	return []*cobra.Command{cmd}
}

func newCommand(g *view.Globals, p Program, short, example string, run func(*view.Globals, *view.Settings) error) *cobra.Command {
	cmd := &cobra.Command{Use: p.Name, Short: short, Long: short + ". It takes the flags of\nosqueue " + p.Name + ".", Example: "  " + example}
	s := p.Settings(g, cmd.Flags())
	s.Flags.VisitAll(func(f *pflag.Flag) { f.Hidden = true })
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if err := s.Load(cmd); err != nil {
			return err
		}
		return run(g, &s)
	}
	return cmd
}

func printSettings(g *view.Globals, s *view.Settings) error {
	lines := func(yield func(view.SettingLine, error) bool) {
		for _, l := range s.Lines() {
			if !yield(l, nil) {
				return
			}
		}
	}
	return view.PrintAll(g, view.Columns("SETTING", "VALUE", "SOURCE"), lines, func(l view.SettingLine) []string {
		return []string{l.Setting, view.OrDash(l.Value), l.Source}
	})
}

func checkSettings(g *view.Globals, s *view.Settings) error {
	warnings, err := s.Check()
	if err != nil {
		return &view.UsageError{Err: err}
	}
	for _, w := range warnings {
		if err := view.WritePlain(g.Err, "warning: "+w+"\n"); err != nil {
			return err
		}
	}
	given := 0
	for _, l := range s.Lines() {
		if l.Source != view.SourceDefault {
			given++
		}
	}
	in := ""
	if *s.File != "" {
		in = " of " + *s.File
	}
	return g.Print(map[string]any{"file": *s.File, "settings": given, "warnings": len(warnings)}, "no mistake in the settings%s; %s\n", in,
		fmt.Sprintf("%d differ from the defaults", given))
}
