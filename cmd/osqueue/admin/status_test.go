package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/view"
)

func TestStatusTable(t *testing.T) {
	q := clitest.NewFake(t)
	q.Status.Fence.Reason = "a reason"
	q.Status.FlushError = "bucket away"
	c := newTestCommand(t, q.Server.URL, "127.0.0.1:1")
	got := c.Run("status", "-o", "wide")
	if got.Code != view.ExitOK {
		t.Fatalf("%+v", got)
	}
	lines := strings.Split(got.Out, "\n")
	host := strings.TrimPrefix(q.Server.URL, "http://")
	want := strings.Fields(host + " n1 leader 3 n1 3-17 3-12 5/40ms active 4 3 2 11 1 6")
	if fields := strings.Fields(lines[1]); strings.Join(fields, " ") != strings.Join(want, " ") {
		t.Errorf("%v", fields)
	}
	if len(strings.Fields(lines[0])) != len(want) || len(strings.Fields(lines[2])) != len(want) {
		t.Errorf("the columns differ:\n%s", got.Out)
	}
	for _, text := range []string{host + ": a reason", "the leader, cannot write to the bucket: bucket away", "127.0.0.1:1: ", "connection refused"} {
		if !strings.Contains(got.Out, text) {
			t.Errorf("%q is missing:\n%s", text, got.Out)
		}
	}
	if at := strings.Index(lines[0], "NODE"); at != strings.Index(lines[1], "n1 ") {
		t.Errorf("not aligned:\n%s", got.Out)
	}
	if strings.Contains(got.Out, "\x1b") {
		t.Error("there are colours")
	}
}

func TestStatusJSON(t *testing.T) {
	q := clitest.NewFake(t)
	c := newTestCommand(t, q.Server.URL, "127.0.0.1:1")
	got := c.Run("status", "--json")
	var out struct {
		Nodes []struct {
			Server, Error string
			Status        *v1.Status
		}
	}
	if err := json.Unmarshal([]byte(got.Out), &out, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatal(err, got.Out)
	}
	if len(out.Nodes) != 2 || out.Nodes[0].Status.LSN != "3-17" || out.Nodes[1].Status != nil || out.Nodes[1].Error == "" {
		t.Errorf("%+v", out)
	}
}

func TestStatusWithoutLeader(t *testing.T) {
	q := clitest.NewFake(t)
	q.Status.State, q.Status.Leader = v1.StateCandidate, nil
	if got := osqTest(t, q, "", "status"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no leader; 1 node answers") || !strings.Contains(got.Out, "candidate") {
		t.Errorf("%+v", got)
	}
	c := newTestCommand(t, "127.0.0.1:1")
	if got := c.Run("status"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "osqueue dev") {
		t.Errorf("%+v", got)
	}
}

// The advice depends on how many nodes answer, and on whether the leader is one that does not.
func TestStatusSaysWhyNobodyLeads(t *testing.T) {
	away, there := errors.New("connection refused"), "10.0.0.2:8080"
	follower := func(leader *string) client.NodeStatus {
		return client.NodeStatus{Server: "http://10.0.0.1:8080", Status: v1.Status{State: v1.StateFollower, LeaderAddress: leader}}
	}
	silent := client.NodeStatus{Server: "http://" + there, Err: away}
	secured := func(n client.NodeStatus) client.NodeStatus {
		n.Server = strings.Replace(n.Server, "http:", "https:", 1)
		return n
	}
	third := client.NodeStatus{Server: "http://10.0.0.3:8080", Err: away}
	other := "10.0.0.9:8080"
	for name, test := range map[string]struct {
		nodes []client.NodeStatus
		want  string // "" for no error
	}{
		"leader hangs":           {[]client.NodeStatus{follower(&there), silent, follower(nil)}, "10.0.0.1:8080 follows - at 10.0.0.2:8080; if the process or its disk hangs, stop it"},
		"leader hangs, with TLS": {[]client.NodeStatus{secured(follower(&there)), secured(silent)}, "10.0.0.1:8080 follows - at 10.0.0.2:8080; if the process"},
		"election":               {[]client.NodeStatus{follower(nil), follower(nil), third}, "2 nodes answer of 3 asked, which is a majority"},
		"minority":               {[]client.NodeStatus{follower(nil), silent, third}, "1 node answers of 3 asked; writes wait until a majority"},
		"another CA":             {[]client.NodeStatus{{Err: &tls.CertificateVerificationError{}}, {Err: &net.OpError{Err: away}}}, "is it another cluster? See osqueue context ls"},
		"all away":               {[]client.NodeStatus{{Err: &net.OpError{Err: away}}, {Err: context.DeadlineExceeded}}, "no node answers; "},
		"not asked":              {[]client.NodeStatus{follower(&other), silent}, ""},
	} {
		err := leaderless(test.nodes)
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
}

// A majority runs, and waiting would not help.
func TestStatusOfAStandby(t *testing.T) {
	q := clitest.NewFake(t)
	q.Status.State, q.Status.Leader = v1.StateCandidate, nil
	for _, state := range []string{"standby", "refused", "fenced"} {
		q.Status.Fence = v1.Fence{State: state, Reason: "the document belongs to another broker"}
		got := osqTest(t, q, "", "status", "-o", "wide")
		if got.Code != view.ExitFailure || !strings.Contains(got.Err, "its cluster does not own the bucket ("+state+")") || strings.Contains(got.Err, "majority") ||
			!strings.Contains(got.Out, "belongs to another broker") {
			t.Errorf("%+v", got)
		}
	}
}

// A follower that is asked alone knows of a leader elsewhere.
func TestStatusOfAFollower(t *testing.T) {
	q := clitest.NewFake(t)
	leader, address := "n2", "127.0.0.1:2"
	q.Status.State, q.Status.Leader, q.Status.LeaderAddress = v1.StateFollower, &leader, &address
	got := osqTest(t, q, "", "status", "-o", "wide")
	if got.Code != view.ExitOK || !strings.Contains(got.Out, " n2 ") || !strings.Contains(got.Out, "3-17  3-12     -  ") || strings.Contains(got.Out, "behind") {
		t.Errorf("%+v", got)
	}
	q.Status.FlushedLSN = "0-0"
	if got := osqTest(t, q, "", "status", "-o", "wide"); !strings.Contains(got.Out, "3-17  -        -  ") {
		t.Errorf("%+v", got)
	}
	c := newTestCommand(t, q.Server.URL, address) // the leader was asked, and is dead
	if got := c.Run("status"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no leader") {
		t.Errorf("%+v", got)
	}
}

// Without a right to read a node shows no members: the command says what is missing.
func TestStatusWithoutAToken(t *testing.T) {
	const note = "are shown with a token that may read"
	q := clitest.NewFake(t)
	q.Status.Peers = []v1.Peer{{Name: "n1", Voter: true}}
	if got := osqTest(t, q, "", "status"); strings.Contains(got.Out, note) {
		t.Errorf("%+v", got)
	}
	q.Status.Peers = nil
	if got := osqTest(t, q, "", "status"); got.Code != view.ExitOK || !strings.Contains(got.Out, note) {
		t.Errorf("%+v", got)
	}
}

func TestStatusCheck(t *testing.T) {
	q := clitest.NewFake(t)
	host := strings.TrimPrefix(q.Server.URL, "http://")
	if got := osqTest(t, q, "", "status", "--check"); got.Code != view.ExitOK || got.Out != "" || got.Err != "" {
		t.Errorf("%+v", got)
	}
	if got := newTestCommand(t, "127.0.0.1:1").Run("status", "--check", host); got.Code != view.ExitOK {
		t.Errorf("%+v", got)
	}
	if got := newTestCommand(t, host, "127.0.0.1:1").Run("status", "--check"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "127.0.0.1:1 is not ready") {
		t.Errorf("%+v", got)
	}
	q.Ready = false
	if got := osqTest(t, q, "", "status", "--check"); got.Code != view.ExitFailure || !strings.Contains(got.Err, "no leader yet") {
		t.Errorf("%+v", got)
	}
}
