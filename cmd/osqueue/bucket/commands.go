package bucket

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g, and lets
// the commands that read the queue read it from a bucket.
func Commands(g *view.Globals) []*cobra.Command {
	g.WithBucket = serveBucket
	return []*cobra.Command{newInspectCommand(g), newRestoreCommand(g), newBranchCommand(g), newVerifyCommand(g), newBucketCommand(g)}
}
