package regression

import (
	"fmt"
	"strings"
	"testing"

	"osqueue/client"
	"osqueue/tests/cluster"
)

// A node whose log leads to another state is detected by the first check, ends, and does not
// start with that state again. The other nodes accept jobs all the time, and with an empty data
// directory the node joins them again.
func TestANodeWithAnotherStateEnds(t *testing.T) {
	t.Parallel()
	c := cluster.Start(t, cluster.Options{Flags: []string{"--state-check-interval", "0"}})
	c.WaitLeader()
	if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{ID: "job", Type: "t", Payload: []byte(`"right"`)}); err != nil {
		t.Fatal(err)
	}
	// A majority can have accepted the job without this node.
	wrong, entries := c.Nodes[0], appliedIndex(t, c)
	c.Eventually(patience, wrong.Name+" to have the job", func() error {
		s, err := wrong.Status()
		if err == nil && s.Applied < entries {
			err = fmt.Errorf("it has applied %d of %d entries", s.Applied, entries)
		}
		return err
	})
	c.StopAll()
	if err := wrong.ChangeJob("job", []byte(`"wrong"`)); err != nil {
		t.Fatal(err)
	}
	for _, n := range c.Nodes {
		n.Start("--state-check-interval", "1s")
	}
	c.Eventually(patience, wrong.Name+" to end", ended(wrong))
	if log := wrong.Log(); !strings.Contains(log, "differs from that of the majority") {
		t.Errorf("%s does not say why it ended:\n%s", wrong.Name, wrong.LogTail(5))
	}
	if _, err := c.Client.Enqueue(c.Context(patience), client.NewJob{Type: "t"}); err != nil {
		t.Errorf("the majority takes no job: %v", err)
	}

	wrong.Start("--state-check-interval", "1s")
	c.Eventually(patience, wrong.Name+" to refuse its data", ended(wrong))
	if log := wrong.LogTail(5); !strings.Contains(log, "delete the directory") {
		t.Errorf("%s does not say what to do:\n%s", wrong.Name, log)
	}
	wrong.Wipe()
	wrong.Start("--state-check-interval", "1s")
	follows(c, wrong)
	c.Eventually(patience, "a check with all nodes", func() error {
		s, err := wrong.Status()
		if err == nil && (s.StateCheckedLSN == "" || s.StateError != "") {
			err = fmt.Errorf("checked %q: %s", s.StateCheckedLSN, s.StateError)
		}
		return err
	})
}
