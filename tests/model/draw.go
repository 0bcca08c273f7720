package model

import (
	"fmt"
	"io"

	"github.com/anishathalye/porcupine"

	"osqueue/tests/history"
)

// Draw writes an HTML page with the calls on a job, in the order that Porcupine found or up to
// the call after which it found none, and with the faults of the run.
func Draw(out io.Writer, h *history.History, job string, opt Options) error {
	f := newFacts(h, opt)
	calls := f.calls()[job]
	if len(calls) == 0 {
		return fmt.Errorf("the history has no calls on job %q", job)
	}
	clients := make(map[string]int)
	for i := range calls {
		name := calls[i].Input.(call).op.Client
		if _, known := clients[name]; !known {
			clients[name] = len(clients)
		}
		calls[i].ClientId = clients[name]
	}
	m := registerModel()
	m.DescribeOperation = func(input, _ any) string {
		c := input.(call)
		return fmt.Sprintf("%d %s: %s (%s)", c.op.ID, c.op.Client, c.op.Kind, c.op.Outcome)
	}
	m.DescribeState = func(state any) string { return fmt.Sprintf("%+v", state) }
	_, info := porcupine.CheckOperationsVerbose(m, calls, patienceJob)
	var faults []porcupine.Annotation
	for _, x := range h.Faults {
		faults = append(faults, porcupine.Annotation{
			Tag: "faults", Start: int64(x.Begin), End: int64(x.End), Description: x.Name + " " + x.Target, Details: x.Proof,
		})
	}
	info.AddAnnotations(faults)
	return porcupine.Visualize(m, info, out)
}
