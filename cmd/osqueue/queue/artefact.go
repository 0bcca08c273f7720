package queue

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
)

func newJobGetCommand(g *view.Globals) *cobra.Command {
	to := ""
	cmd := &cobra.Command{
		Use:   "get ID [NAME]",
		Short: "Print an artefact of a job, or store it in a file",
		Long: `Prints an artefact of a job: a file that was submitted with it, or that its worker has
made. Without NAME the job must have one artefact. osqueue job show lists them. The
bytes are compared with their SHA-256, and decrypted with --keys; the exit status is 1
if they are others. With --out the file appears when it is whole.`,
		Example: `  osqueue job get report-7 report.pdf --out report.pdf
  osqueue job get import-12 | head`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				name, err := artefactName(ctx, c, args)
				if err != nil {
					return err
				}
				return getArtefact(ctx, g, c, args[0], name, to)
			})
		},
	}
	cmd.Flags().StringVar(&to, "out", "", "file to write (default: stdout)")
	return cmd
}

// artefactName returns the name of the arguments, or that of the only artefact of the job.
func artefactName(ctx context.Context, c *client.Client, args []string) (string, error) {
	if len(args) > 1 {
		return args[1], nil
	}
	all, err := c.Artefacts(ctx, args[0])
	switch {
	case err != nil:
		return "", err
	case len(all) == 0:
		return "", fmt.Errorf("job %s has no artefacts", view.PlainLine(args[0]))
	case len(all) == 1:
		return all[0].Name, nil
	}
	names := make([]string, len(all))
	for i, a := range all {
		names[i] = view.PlainLine(a.Name)
	}
	return "", fmt.Errorf("job %s has several artefacts; give one of %s", view.PlainLine(args[0]), strings.Join(names, ", "))
}

func getArtefact(ctx context.Context, g *view.Globals, c *client.Client, id, name, to string) (err error) {
	r, err := c.OpenArtefact(ctx, id, name)
	if err != nil {
		return err
	}
	defer r.Close()
	if to == "" {
		_, err := io.Copy(g.Out, r)
		return err
	}
	return writeFile(to, r)
}

// writeFile makes a file that is whole when it appears. What is no regular file, such as /dev/null, is written as it is.
func writeFile(name string, r io.Reader) error {
	path, flag := filepath.Join(filepath.Dir(name), "."+filepath.Base(name)+"."+rand.Text()), os.O_CREATE|os.O_EXCL
	if info, err := os.Stat(name); err == nil && !info.Mode().IsRegular() {
		path, flag = name, 0
	}
	out, err := os.OpenFile(path, os.O_WRONLY|flag, 0o666) // the umask applies
	if err != nil {
		return err
	}
	_, err = io.Copy(out, r)
	err = errors.Join(err, out.Close())
	if path == name {
		return err
	}
	if err == nil {
		err = os.Rename(path, name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
