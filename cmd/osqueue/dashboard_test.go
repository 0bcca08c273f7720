package main

import (
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"osqueue/cmd/osqueue/view"
)

// words splits a command line with single quotes.
func words(line string) []string {
	out := regexp.MustCompile(`'[^']*'|\S+`).FindAllString(line, -1)
	for i := range out {
		out[i] = strings.Trim(out[i], "'")
	}
	return out
}

// TestCommandsOfTheDashboard: the commands that pages of the dashboard recommend exist, with these flags
// and arguments.
func TestCommandsOfTheDashboard(t *testing.T) {
	files, err := filepath.Glob("../../api/ui/templates/*.html")
	if err != nil {
		t.Fatal(err)
	}
	found := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`<code>osqueue ([^<]*)</code>`).FindAllStringSubmatch(string(text), -1) {
			found++
			line := html.UnescapeString(m[1])
			g := view.NewGlobals("devel")
			cmd, args, err := view.NewRoot(g, commands(g)...).Find(words(line))
			if err == nil {
				err = cmd.ParseFlags(args)
			}
			if err == nil {
				err = cmd.ValidateArgs(cmd.Flags().Args())
			}
			if err != nil {
				t.Errorf("%s recommends osqueue %s: %v", filepath.Base(file), line, err)
			}
		}
	}
	if found < 8 {
		t.Errorf("found %d commands in the templates", found)
	}
}
