package admin

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"osqueue/client"
	"osqueue/cmd/osqueue/view"
)

func newDoctorCommand(g *view.Globals) *cobra.Command {
	bucket := ""
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Look for faults of the cluster, and say what to do",
		Long: `Asks every node for its status and its metrics, also members that are not in --servers, and the
cluster for its figures; then it goes through a table of checks: docs/operations/doctor.md has all of
them. Each finding is a line with its cure below. It needs a token that may read (the role reader). With
--data only the node of that directory is asked, over its admin socket.

With --bucket it also runs the probe of a node from this machine: it writes, reads and deletes one object
below probe/, and finds a store whose conditional writes do not refuse.

A finding of any kind makes the exit status 1.`,
		Example: `  osqueue doctor
  osqueue doctor --servers 10.0.0.1:8080 --ca ca.crt --token-file reader.token --bucket s3://jobs/prod`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				s, err := gather(ctx, g, c, bucket)
				if err != nil {
					return err
				}
				found := s.findings(allChecks)
				if err := report(g, s, found); err != nil || len(found) == 0 {
					return err
				}
				return view.SilentError{}
			})
		},
	}
	cmd.Flags().StringVar(&bucket, "bucket", "", "URL of the bucket, to probe its conditional writes from this machine")
	return cmd
}

// report prints the findings.
func report(g *view.Globals, s *snapshot, found []finding) error {
	asked := make([]string, len(s.nodes))
	for i, n := range s.nodes {
		asked[i] = hostOf(n.Server)
	}
	if g.JSON {
		return g.WriteJSON(struct {
			Nodes    []string  `json:"nodes"`
			Checks   int       `json:"checks"`
			Findings []finding `json:"findings"`
		}{asked, len(allChecks), append([]finding{}, found...)})
	}
	for _, f := range found {
		if err := g.Printf("%s\n", f); err != nil {
			return err
		}
	}
	return g.Printf("%s, %s: %s\n", view.Plural(len(found), "finding"), view.Plural(len(allChecks), "check"), strings.Join(asked, ", "))
}

// String returns the finding and its cure, a line each.
func (f finding) String() string {
	return f.Check + ": " + f.At + ": " + view.PlainLine(f.What) + "\n  cure: " + f.Cure
}
