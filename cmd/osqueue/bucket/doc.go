// Package bucket has the commands that work on a bucket without a cluster.
//
// The bucket holds the whole queue and its history, so an operator can look at it, check
// it and restore from it while no node runs. The command inspect reads the state at any
// point (inspect.go); for all other commands that read the queue bucket_node.go serves the API
// and the dashboard of such a state in this process. verify checks every object of the archive
// and, with --repair, makes the newest whole state the document (verify.go), restore and
// branch write a state of the past to a bucket (restore*.go). backup copies the newest state to
// another bucket, which all others read as well, and drill restores it for a trial (backup.go, drill.go).
//
// All of them read through offline (offline.go), which bounds each request, counts the
// traffic, and never creates the directory of a file bucket.
// A bucket that does not answer ends the command. Only restore, branch, backup, verify --repair, and
// adopt and release of the group bucket (adopt.go) write; before restore replaces a document
// it waits to see whether a broker is alive (restore.go).
package bucket

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g, and lets
// the commands that read the queue read it from a bucket.
func Commands(g *view.Globals) []*cobra.Command {
	g.WithBucket = serveBucket
	return []*cobra.Command{
		newInspectCommand(g), newRestoreCommand(g), newBranchCommand(g), newBackupCommand(g), newDrillCommand(g), newVerifyCommand(g), newBucketCommand(g),
	}
}
