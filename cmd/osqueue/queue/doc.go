// Package queue has the commands with which people use the queue: they enqueue jobs, wait
// for results, look at jobs, and change jobs, job types and schedules.
//
// One job and a million lines of a file go through the same flags and must fail in the
// same way: an error names the line or the argument, and nothing is enqueued twice.
//
//   - submit enqueues jobs (submit.go); jobflags.go has its flags, and those
//     that batch create, cron put, drop, run and map share. A file is read line by line
//     (lines.go) and sent in batches, several at a time; the pipeline delivers each
//     job when it has ended (pipeline.go).
//   - run and map run command lines on workers and print their outputs (run.go, map.go);
//     await.go waits for the end of one job, also for job wait.
//   - job, dead and queue purge change many jobs by ids or by a filter (change.go), and
//     refuse a type or batch that does not exist (queue.go).
//   - queue with stats, limit, cron, batch, flow (flows.go), hook and events have a file each.
//   - drop writes jobs into the inbox of a bucket, without a cluster (drop.go).
package queue

import (
	"github.com/spf13/cobra"

	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{
		newSubmitCommand(g),
		newRunCommand(g),
		newMapCommand(g),
		newDropCommand(g),
		newJobCommand(g),
		newDeadCommand(g),
		newQueueCommand(g),
		newLimitCommand(g),
		newCronCommand(g),
		newHookCommand(g),
		newBatchCommand(g),
		newFlowCommand(g),
		newEventsCommand(g),
		g.Read(newStatsCommand(g)),
	}
}
