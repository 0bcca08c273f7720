package model

import (
	"testing"

	"osqueue/tests/history"
)

// TestOverALoss: what was not in the bucket is lost with all disks: a job may be done again,
// and a claim holds its job again whose successor was lost.
func TestOverALoss(t *testing.T) {
	for _, c := range []struct {
		name      string
		committed string
		loss      history.Fault
		want      int
	}{
		{"nothing was lost", "quorum", history.Fault{Name: "leader-killed", Begin: 20, End: 30, Hit: true}, 1},
		{"lost between them", "quorum", history.Fault{Name: "all-lost", Begin: 20, End: 30, Hit: true, Loses: true}, 0},
		{"lost before both", "quorum", history.Fault{Name: "all-lost", Begin: 1, End: 2, Hit: true, Loses: true}, 1},
		{"it has missed", "quorum", history.Fault{Name: "all-lost", Begin: 20, End: 30, Loses: true}, 1},
		{"it was in the bucket", inBucket, history.Fault{Name: "all-lost", Begin: 20, End: 30, Hit: true, Loses: true}, 1},
	} {
		h := &history.History{Faults: []history.Fault{c.loss}, Ops: []history.Op{
			{ID: 1, Kind: history.Complete, Outcome: history.OK, Job: "a", Token: 1, Call: 10, Return: 11, Committed: c.committed},
			{ID: 2, Kind: history.Complete, Outcome: history.OK, Job: "a", Token: 2, Call: 40, Return: 41, Committed: "quorum"},
		}}
		f, v := newFacts(h, Options{}), new(Verdict)
		f.completesOnce(v)
		if len(v.Violations) != c.want {
			t.Errorf("%s: %v, want %d", c.name, v.Violations, c.want)
		}
		h.Ops = []history.Op{
			{ID: 1, Kind: history.Claim, Outcome: history.OK, Jobs: []history.Held{{Job: "a", Token: 1}}, Call: 6, Return: 7},
			{ID: 2, Kind: history.Claim, Outcome: history.OK, Jobs: []history.Held{{Job: "a", Token: 2}}, Call: 10, Return: 11, Committed: c.committed},
			{ID: 3, Kind: history.Complete, Outcome: history.OK, Job: "a", Token: 1, Call: 40, Return: 41},
		}
		f, v = newFacts(h, Options{}), new(Verdict)
		f.leasesByToken(v)
		if len(v.Violations) != c.want {
			t.Errorf("a report under the older token: %s: %v, want %d", c.name, v.Violations, c.want)
		}
		h.Ops[0].Jobs[0].Lease = 100 * history.Millisecond
		h.Ops[2].Kind = history.Heartbeat
		f, v = newFacts(h, Options{}), new(Verdict)
		f.leasesByTime(v)
		if len(v.Violations) != c.want {
			t.Errorf("a lease that lives beside the younger one: %s: %v, want %d", c.name, v.Violations, c.want)
		}
	}
}
