package queue

import (
	"fmt"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// showEnqueued prints the id of a job that was enqueued.
func showEnqueued(g *view.Globals, e client.Enqueued) error {
	if g.JSON {
		return view.WriteWritten(g, v1.Enqueued{JobID: e.JobID, LSN: e.LSN, Duplicate: e.Duplicate})
	}
	return g.Printf("%s\n", e.JobID)
}

// noteHolder prints a note that the printed id belongs to the job that holds the unique
// key.
func noteHolder(g *view.Globals, e client.Enqueued) error {
	if e.Holder == "" {
		return nil
	}
	return view.WritePlain(g.Err, fmt.Sprintf("nothing was added: job %s holds the unique key\n", e.Holder))
}
