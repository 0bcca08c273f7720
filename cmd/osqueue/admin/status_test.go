package admin

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/leader"
	"osqueue/cmd/osqueue/clitest"
)

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

// The leader's word on the bucket, as people read it.
func TestStatusOfTheBucket(t *testing.T) {
	now := time.UnixMilli(1_700_000_000_000)
	small := &v1.Document{View: true, Bytes: 980, CheckpointLSN: "0-0", ArchiveLSN: "0-0"}
	large := &v1.Document{Bytes: 70_000, CheckpointLSN: "3-100", ArchiveLSN: "3-900", LogBytes: 5 << 20}
	free := &v1.Bucket{Since: now.Add(-time.Minute).UnixMilli(), Requests: map[string]uint64{"get": 2, "put_if_match": 5}, BytesWritten: 3000, BytesRead: 10}
	dear := *free
	dear.CostUSD, dear.ProjectedUSD, dear.BudgetUSD = 0.000296, 6.48, 5
	dear.Since = now.Add(-10 * time.Minute).UnixMilli()
	young := dear
	young.Since++
	for name, tc := range map[string]struct {
		s    v1.Status
		want string
	}{
		"new leader": {v1.Status{}, "behind nothing"},
		"small": {
			v1.Status{Document: small, Bucket: free, FlushIntervalMs: 50, Ack: "quorum", MaxFlushLagMs: 300_000},
			`document 980 B
behind nothing (writes are refused from 5m on)
flushes at most one every 50ms; ack level quorum
requests 7 in 1m0s (2.9KiB written, 10 B read)`,
		},
		"large": {
			v1.Status{Document: large, Bucket: &dear, FlushIntervalMs: 1000, Ack: "object", LagEntries: 5, LagBytes: 410, LagMs: 12_340},
			`document 68KiB, without a list of the jobs
archive checkpoint at 3-100, 5MiB of the log up to 3-900
behind 5 entries, 410 B, for 12.34s
flushes at most one every 1s; ack level object
requests 7 in 10m0s (2.9KiB written, 10 B read)
cost $0.000296 so far, $6.48 a month at the rate of the last hour, budget $5.00 a month`,
		},
		"too young": {
			v1.Status{Bucket: &young},
			`behind nothing
requests 7 in 10m0s (2.9KiB written, 10 B read)
cost $0.000296 so far, an estimate for a month needs 10m, budget $5.00 a month`,
		},
		"from the beginning": {
			v1.Status{Document: &v1.Document{Bytes: 70_000, CheckpointLSN: "0-0", ArchiveLSN: "3-900", LogBytes: 5 << 20}},
			"document 68KiB, without a list of the jobs\narchive checkpoint at the beginning, 5MiB of the log up to 3-900\nbehind nothing",
		},
		"beside": {
			v1.Status{
				Snapshots: &v1.Snapshots{Local: &v1.SnapshotPoint{Term: 2, Index: 70, At: now.Add(-time.Minute).UnixMilli()}},
				Inbox:     &v1.Inbox{Taken: 1, Repeated: 2, Rejected: 3, Waiting: 4},
			},
			`behind nothing
snapshots raft entry 2-70 on the leader's disk, 1m0s old
inbox 1 job taken, 2 repeated, 3 rejected (see inbox-rejected/ in the bucket), 4 waiting`,
		},
		"one": {v1.Status{LagEntries: 1, LagBytes: 1, LagMs: 1}, "behind 1 entry, 1 B, for 1ms"},
	} {
		tc.s.State = v1.StateLeader
		var lines []string
		for _, row := range bucketRows([]client.NodeStatus{{Err: client.ErrClosed}, {Status: v1.Status{State: v1.StateFollower}}, {Status: tc.s}}, now) {
			lines = append(lines, strings.Join(row, " "))
		}
		if got := strings.Join(lines, "\n"); got != tc.want {
			t.Errorf("%s:\n%s\nwant\n%s", name, got, tc.want)
		}
	}
}

func TestDollars(t *testing.T) {
	for usd, want := range map[float64]string{0: "$0.00", 6.48: "$6.48", 1234.5: "$1234.50", 0.01: "$0.01", 0.0042: "$0.0042", 0.0000001: "$0"} {
		if got := dollars(usd); got != want {
			t.Errorf("%v is %s, want %s", usd, got, want)
		}
	}
}

func TestStatusTellsThatWritesAreRefused(t *testing.T) {
	q := clitest.NewFake(t)
	q.Status.Refusing, q.Status.MaxFlushLagMs, q.Status.FlushError = (&leader.FlushLagError{
		Lag: 301 * time.Second, Max: 5 * time.Minute, Cause: "timeout",
	}).Error(), 300_000, "timeout"
	q.Status.Snapshots = &v1.Snapshots{Damaged: "2-70"}
	q.Status.Inbox = &v1.Inbox{Failing: "no list"}
	got := osq.Run(t, q, "", "status")
	for _, want := range []string{
		"\n\n127.0.0.1:", ": writes are refused: the bucket is 5m1s behind, at most 5m0s are allowed (--max-flush-lag): timeout\n",
		": a local snapshot is damaged: 2-70\n", ": the inbox cannot be emptied: no list\n", "\nbehind  5 entries", "(writes are refused from 5m on)\n",
	} {
		if !strings.Contains(got.Out, want) {
			t.Errorf("%q is missing:\n%s", want, got.Out)
		}
	}
	if strings.Contains(got.Out, "cannot write to the bucket") || strings.Count(got.Out, "writes are refused:") != 1 || strings.Contains(got.Out, "until it catches up") {
		t.Errorf("the same is said twice:\n%s", got.Out)
	}
}
