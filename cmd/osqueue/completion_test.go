package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

// offered returns what a shell offers after a command line, and the directive: ":0" offers the
// files of the directory as well, ":16" its directories, ":4" neither.
func offered(t *testing.T, q *clitest.Fake, line ...string) (names []string, directive string) {
	t.Helper()
	got := osq.Run(t, q, "", append([]string{cobra.ShellCompRequestCmd}, line...)...)
	lines := strings.Split(strings.TrimSpace(got.Out), "\n")
	for _, text := range lines[:len(lines)-1] {
		name, _, _ := strings.Cut(text, "\t")
		names = append(names, name)
	}
	return names, lines[len(lines)-1]
}

// How the help of flags begins whose value is a file or a directory.
var (
	isFile      = regexp.MustCompile(`^(PEM )?file |^upload a file|^enqueue the lines of a file|^the bootstrap\.json|^key ring`)
	isDirectory = regexp.MustCompile(`^(data )?directory |^parent of the directories`)
)

// Each flag offers files if its help says that it is a file, directories if it is a directory,
// and neither otherwise.
func TestOnlyFilesOfferFiles(t *testing.T) {
	t.Parallel()
	q := clitest.NewFake(t)
	g := view.NewGlobals("devel")
	root := view.NewRoot(g, commands(g)...)
	checked := 0
	for _, cmd := range append(all(root), root) {
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.NoOptDefVal != "" || f.Hidden {
				return // it takes no value
			}
			want := ":4"
			switch {
			case isFile.MatchString(f.Usage):
				want = ":0"
			case isDirectory.MatchString(f.Usage):
				want = ":16"
			}
			line := append(strings.Fields(cmd.CommandPath())[1:], "--"+f.Name, "")
			if _, got := offered(t, q, line...); got != want {
				t.Errorf("%s (%s) has the directive %s, want %s", line, f.Usage, got, want)
			}
			checked++
		})
	}
	if checked < 200 {
		t.Errorf("only %d flags", checked)
	}
}

// Each argument offers files only if its usage says that it is a file or a command.
func TestOnlyFileArgumentsOfferFiles(t *testing.T) {
	t.Parallel()
	q := clitest.NewFake(t)
	for line, want := range map[string]string{
		"audit":             ":0",
		"audit x":           ":0",
		"batch create":      ":0",
		"cert renew":        ":4",
		"cert show":         ":0",
		"cert show x":       ":0",
		"dev":               ":4",
		"inspect":           ":4",
		"job cancel x":      ":4",
		"job logs":          ":4",
		"job logs x":        ":4",
		"man":               ":16",
		"map":               ":0",
		"map x --":          ":0",
		"limit set x":       ":4",
		"queue set x":       ":4",
		"run --":            ":0",
		"run -- cat":        ":0",
		"stats":             ":4",
		"submit mail":       ":4",
		"worker":            ":4",
		"queue nonsense":    ":4",
		"hook put x":        ":4",
		"cron put x @daily": ":4",
	} {
		if names, got := offered(t, q, append(strings.Fields(line), "")...); got != want {
			t.Errorf("%s offers %q, %s, want %s", line, names, got, want)
		}
	}
}
