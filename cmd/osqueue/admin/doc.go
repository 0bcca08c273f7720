// Package admin has the commands about the cluster itself.
//
// An operator wants to know whether the cluster works: which node leads, how far the
// bucket lags behind, whether the clocks agree. The command status (status.go) asks every node,
// and shows the nodes, the members as the leader sees them, and the bucket with its cost. If no
// node leads, it prints what is known and the exit status is 1.
//
// # Diagnosis
//
// The command doctor gathers once (gather.go) what nodes and cluster tell: statuses, metrics, figures, and with --bucket a probe
// of the bucket. Then it goes through a table of checks (checks.go): a name, a pure function of what was gathered, and a cure.
// A fact is in one place: in /status if other nodes or clients need it, else in the metrics. The command status shows the checks
// that need only statuses as notes. There is one degree of findings: each has a cure and fails the command. What cannot be
// read is a finding too, so that silence is not taken for health.
//
// The command debug bundle (bundle.go) puts what every node gives into an archive: all nodes at the same time, each part
// bounded in bytes and time. A part that fails is there as its error. Payloads, tokens and keys are in none of the parts: a node
// gives statuses, metrics, settings without secrets, the end of its log, and profiles, which name functions only.
package admin

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{
		newInitCommand(g), newJoinCommand(g), g.Watch(newStatusCommand(g)), newCertCommand(g), newTokenCommand(g), newKeyCommand(g),
		newContextCommand(g), newUICommand(g), newClusterCommand(g), newNodeCommand(g), newAuditCommand(g), newDoctorCommand(g), newDebugCommand(g),
	}
}
