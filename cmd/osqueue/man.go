package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"

	"osqueue/cmd/osqueue/view"
)

// newManCommand returns the command that writes the manual pages of all commands.
func newManCommand(g *view.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Writes a manual page of section 1 for each command into DIR, for packages and for
man. SOURCE_DATE_EPOCH sets their date.`,
		Example: `  osqueue man man1 && man -l man1/osqueue-submit.1`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o755); err != nil {
				return fmt.Errorf("create the directory of the pages: %w", err)
			}
			root := cmd.Root()
			root.DisableAutoGenTag = true
			head := &doc.GenManHeader{Section: "1", Source: "osqueue " + g.Version, Manual: "osqueue"}
			if err := doc.GenManTree(root, head, args[0]); err != nil {
				return fmt.Errorf("write the pages: %w", err)
			}
			pages, err := filepath.Glob(filepath.Join(args[0], "osqueue*.1"))
			if err != nil {
				return err
			}
			return g.Printf("%s in %s\n", view.Plural(len(pages), "page"), args[0])
		},
	}
	return cmd
}

// version is set by the linker.
var version = "devel"

func newVersionCommand(g *view.Globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this binary",
		RunE: func(*cobra.Command, []string) error {
			if g.JSON {
				return g.WriteJSON(map[string]string{"version": g.Version})
			}
			return g.Printf("osqueue %s\n", g.Version)
		},
	}
	return cmd
}
