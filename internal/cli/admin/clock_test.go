package admin

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/cli/clitest"
	"osqueue/internal/cli/view"
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
	} {
		if !strings.Contains(oneSpaced(got.Out), want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
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

func TestClusterClock(t *testing.T) {
	q := clitest.NewFake(t)
	addMembers(q)
	q.Status.NodeID, q.Status.Now, q.Status.WallClock = "n1", 1_800_000_003_500, 1_800_000_000_000
	got := osqTest(t, q, "", "cluster", "clock")
	for _, want := range []string{
		"queue's time 2027-01-15 08:00:03.500 UTC (+3.5s against the wall clock of the leader n1)",
		"n1 2027-01-15 08:00:00.000 UTC +0s",
		"n2 - -1h0m0s",
		"n9 - -",
	} {
		if !strings.Contains(oneSpaced(got.Out), want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if got := osqTest(t, q, "", "cluster", "clock", "--json"); !strings.Contains(got.Out, `"aheadMs":3500`) || !strings.Contains(got.Out, `"offsetMs":-3600000`) {
		t.Errorf("%+v", got)
	}
	q.Status.State, q.Status.Leader = v1.StateCandidate, nil
	if got := osqTest(t, q, "", "cluster", "clock"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no leader") {
		t.Errorf("%+v", got)
	}
}

func TestClusterClockRefuses(t *testing.T) {
	q := clitest.NewFake(t)
	for args, want := range map[string]string{
		"--set-back":                                  "then give --yes",
		"--set 2026-03-01T12:00:00Z":                  "then give --yes",
		"--set noon --yes":                            "--set noon: must be a time",
		"--set 1969-12-31T00:00:00Z --yes":            "must be a time after 1970",
		"--set 2026-03-01T12:00:00Z --set-back --yes": "exclude each other",
	} {
		got := osqTest(t, q, "", append([]string{"cluster", "clock"}, strings.Fields(args)...)...)
		if got.Code != view.ExitUsage || !strings.Contains(got.Err, want) {
			t.Errorf("%s: exit status %d, %s", args, got.Code, got.Err)
		}
	}
}
