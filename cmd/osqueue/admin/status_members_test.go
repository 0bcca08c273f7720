package admin

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
)

// addMembers gives the fake's status three members as a leader sees them.
func addMembers(q *clitest.Fake) {
	contact, index, offset, own := int64(120), uint64(17), int64(-3_600_000), int64(0)
	q.Status.Peers = []v1.Peer{
		{Name: "n1", ServerID: "n1~aa", RaftAddress: "10.0.0.1:7080", HTTPAddress: "10.0.0.1:8080", Voter: true, Leader: true, ClockOffsetMs: &own},
		{Name: "n2", ServerID: "n2~bb", RaftAddress: "10.0.0.2:7080", HTTPAddress: "10.0.0.2:8080", Voter: true, LastContactMs: &contact, LogIndex: &index, ClockOffsetMs: &offset},
		{Name: "n9", ServerID: "n9~cc", RaftAddress: "10.0.0.9:7080"},
	}
}

func TestStatusShowsTheMembers(t *testing.T) {
	q := clitest.NewFake(t)
	addMembers(q)
	got := osqTest(t, q, "", "status", "-o", "wide")
	for _, want := range []string{
		"MEMBER INSTANCE VOTE RAFT ADDRESS HTTP ADDRESS CONTACT LOG CLOCK",
		"n1 aa yes 10.0.0.1:7080 10.0.0.1:8080 - - +0s",
		"n2 bb yes 10.0.0.2:7080 10.0.0.2:8080 120ms 17 -1h0m0s",
		"n9 cc no 10.0.0.9:7080 - none - -",
		"2 nodes vote, which survives no more losses than 1",
	} {
		if !strings.Contains(oneSpaced(got.Out), want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
}

func TestAnOddNumberOfVotersIsRight(t *testing.T) {
	q := clitest.NewFake(t)
	addMembers(q)
	q.Status.Peers[2].Voter = true
	if got := osqTest(t, q, "", "status"); strings.Contains(got.Out, "vote, which") {
		t.Errorf("%s", got.Out)
	}
}

// oneSpaced has one space where a table has several.
func oneSpaced(s string) string {
	var lines []string
	for line := range strings.Lines(s) {
		lines = append(lines, strings.Join(strings.Fields(line), " "))
	}
	return strings.Join(lines, "\n")
}
