package admin

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/storage/probe"
)

// healthy returns what doctor gathers of three nodes without a fault: n1 leads.
func healthy(t *testing.T) *snapshot {
	t.Helper()
	s := &snapshot{bucket: &probed{url: "s3://jobs"}}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	var peers []v1.Peer
	for i := range 3 {
		contact, index, offset := int64(40), uint64(20_000), int64(-12)
		p := v1.Peer{
			Name: fmt.Sprintf("n%d", i+1), HTTPAddress: fmt.Sprintf("10.0.0.%d:8080", i+1), RaftAddress: fmt.Sprintf("10.0.0.%d:7080", i+1),
			Voter: true, Leader: i == 0, LastContactMs: &contact, LogIndex: &index, ClockOffsetMs: &offset,
		}
		if p.Leader {
			p.LastContactMs, p.LogIndex = nil, nil
		}
		peers = append(peers, p)
	}
	leader := "10.0.0.1:8080"
	for i, p := range peers {
		status := v1.Status{
			NodeID: p.Name, State: v1.StateFollower, Leader: &peers[0].Name, LeaderAddress: &leader, CommitIndex: 20_000, Cluster: "c", Version: "v0.1.0",
			FeatureLevel: 3, KnownLevel: 3, WallClock: now.UnixMilli(), MaxFlushLagMs: 300_000, Fence: v1.Fence{State: cluster.FenceFollower},
			Bucket: &v1.Bucket{Since: now.Add(-time.Hour).UnixMilli(), ProjectedUSD: 3, BudgetUSD: 5}, Peers: slices.Clone(peers),
		}
		if i == 0 {
			status.State, status.Fence.State = v1.StateLeader, cluster.FenceActive
		}
		s.nodes = append(s.nodes, examined{NodeStatus: client.NodeStatus{Server: "https://" + p.HTTPAddress, Status: status}})
		s.measure(t, i, fmt.Sprintf(`# TYPE process_max_fds gauge
process_max_fds 65536
# TYPE process_open_fds gauge
process_open_fds 60
# TYPE osqueue_certificate_expiry_timestamp_seconds gauge
osqueue_certificate_expiry_timestamp_seconds %d
# TYPE osqueue_disk_free_bytes gauge
osqueue_disk_free_bytes 9e+10
# TYPE osqueue_jobs_max gauge
osqueue_jobs_max 1000
# TYPE osqueue_jobs_bytes_max gauge
osqueue_jobs_bytes_max 1e+06
`, now.Add(60*24*time.Hour).Unix())+writes("osqueue_raft_log_write_seconds", "", 0.008)+
			writes("osqueue_bucket_request_seconds", `op="put_if_match",result="committed",`, 0.064))
	}
	s.queue.stats = v1.Stats{Total: 10, Bytes: 1000, Types: map[string]v1.TypeStats{"mail": {Dead: 4}, "": {Dead: 3}}}
	s.queue.queues = []v1.Queue{{Type: "mail", TypeStats: v1.TypeStats{Unclaimed: 10, Bytes: 1000}, Settings: v1.QueueSettings{MaxJobs: 100, MaxBytes: 1 << 20}}}
	s.queue.history.Minutes = []v1.HistoryMinute{{Dead: 4}, {Dead: 5}}
	return s
}

// writes is a histogram whose 1000 values are all in the bucket with the bound.
func writes(name, labels string, bound float64) string {
	text := "# TYPE " + name + " histogram\n"
	for b := 0.0005; b < 8; b *= 2 {
		n := 0
		if b >= bound {
			n = 1000
		}
		text += fmt.Sprintf("%s_bucket{%sle=\"%g\"} %d\n", name, labels, b, n)
	}
	return text + fmt.Sprintf("%s_bucket{%sle=\"+Inf\"} 1000\n%s_count{%s} 1000\n%s_sum{%s} 1\n", name, labels, name, labels, name, labels)
}

// measure replaces metrics of the i-th node by those in a text.
func (s *snapshot) measure(t *testing.T, i int, text string) {
	t.Helper()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewBufferString(text))
	if err != nil {
		t.Fatal(err)
	}
	n := &s.nodes[i]
	if n.metrics == nil {
		n.metrics = families
	}
	for name, family := range families {
		n.metrics[name] = family
	}
}

// Each seeded fault is found by the check that is for it, and by no other one; and there is a fault for each check.
func TestDoctorFindsSeededFaults(t *testing.T) {
	if found := healthy(t).findings(allChecks); len(found) > 0 {
		t.Fatalf("a healthy cluster has findings: %v", found)
	}
	away := errors.New("connection refused")
	leader := func(change func(*v1.Status)) func(*snapshot) { return func(s *snapshot) { change(&s.nodes[0].Status) } }
	member := func(change func(*v1.Peer)) func(*snapshot) {
		return leader(func(s *v1.Status) { change(&s.Peers[2]) })
	}
	metric := func(text string) func(*snapshot) { return func(s *snapshot) { s.measure(t, 1, text) } }
	faults := []struct {
		check, what, cure string
		seed              func(*snapshot)
	}{
		{"node away", "10.0.0.3:8080: the node does not answer: connection refused", "start the node at 10.0.0.3:8080", func(s *snapshot) { s.nodes[2].Err = away }},
		{"no leader", "no leader; 2 nodes answer of 3 asked", "start nodes until a majority runs", func(s *snapshot) {
			s.nodes[0].Err = away
			for i := range s.nodes {
				s.nodes[i].Status.LeaderAddress = nil
			}
		}},
		{"certificate refused", "unknown authority", "--ca ca.crt", func(s *snapshot) { s.nodes[2].Err = x509.UnknownAuthorityError{} }},
		{"certificate refused", "valid for", "--ca ca.crt", func(s *snapshot) {
			s.nodes[2].Err = fmt.Errorf("tls: %w", x509.HostnameError{Certificate: &x509.Certificate{DNSNames: []string{"n3"}}, Host: "n4"})
		}},
		{"certificate ended", "expired", "osqueue cert renew", func(s *snapshot) { s.nodes[2].Err = x509.CertificateInvalidError{Reason: x509.Expired} }},
		{"certificate ends soon", "10.0.0.2:8080: the certificate of the node ends in 11d", "osqueue cert sign", metric("# TYPE osqueue_certificate_expiry_timestamp_seconds gauge\nosqueue_certificate_expiry_timestamp_seconds 1768176000\n")},
		{"no right to read", "without a token that may read", "osqueue token create --role reader", func(s *snapshot) {
			for i := range s.nodes {
				s.nodes[i].metrics, s.nodes[i].metricsErr, s.nodes[i].Status.Peers = nil, errNoRight, nil
			}
		}},
		{"figures missing", "10.0.0.2:8080: the metrics of the node cannot be read: deadline", "run osqueue doctor again", func(s *snapshot) { s.nodes[1].metrics, s.nodes[1].metricsErr = nil, errors.New("deadline") }},
		{"figures missing", "the figures of the queue cannot be read: overloaded", "read the log of the leader", func(s *snapshot) { s.queue = figures{err: errors.New("overloaded")} }},
		{"another cluster", "10.0.0.3:8080: n3 there is a node of another cluster than n1", "take 10.0.0.3:8080 out of --servers", func(s *snapshot) { s.nodes[2].Status.Cluster = "d" }},
		{"member silent", "n3 has not answered the leader, n1, at 10.0.0.3:7080 for 12s", "--raft-addr of n3", member(func(p *v1.Peer) { *p.LastContactMs = 12_000 })},
		{"member silent", "n3 has not answered this leader, n1", "--raft-advertise", member(func(p *v1.Peer) { p.LastContactMs = nil })},
		{"member without address", "does not know its HTTP address", "osqueue cluster remove n3", member(func(p *v1.Peer) { p.HTTPAddress = "" })},
		{"no vote", "n3 is a member without a vote", "members.md", func(s *snapshot) {
			peers := &s.nodes[0].Status.Peers
			(*peers)[2].Voter = false
			*peers = append(*peers, v1.Peer{Name: "n4", HTTPAddress: "10.0.0.4:8080", Voter: true, LastContactMs: new(int64)}) // three votes
		}},
		{"even votes", "2 nodes vote, which survives no more losses than 1", "add a node, or remove one", leader(func(s *v1.Status) { s.Peers = s.Peers[:2] })},
		{"member behind", "n3 lacks 15000 log entries", "slow disk or network of n3", member(func(p *v1.Peer) { *p.LogIndex = 5000 })},
		{"clock wrong", "the clock of n3 differs by -3s from that of the leader, n1", "timedatectl set-ntp true", member(func(p *v1.Peer) { *p.ClockOffsetMs = -3000 })},
		{"versions differ", "n1 runs v0.1.0, n2 runs v0.1.0, n3 runs v0.2.0", "one release on all nodes", func(s *snapshot) { s.nodes[2].Status.Version = "v0.2.0" }},
		{"feature level held", "the state has feature level 3, and all nodes know 4", "without --feature-level", func(s *snapshot) {
			for i := range s.nodes {
				s.nodes[i].Status.KnownLevel = 4
			}
		}},
		{"few descriptors", "10.0.0.2:8080: the process may open 1024 descriptors", "LimitNOFILE=65536 in the unit of 10.0.0.2:8080", metric("# TYPE process_max_fds gauge\nprocess_max_fds 1024\n")},
		{"few descriptors", "has 60000 of at most 65536 descriptors open", "LimitNOFILE", metric("# TYPE process_open_fds gauge\nprocess_open_fds 60000\n")},
		{"disk slow", "of the 1000 writes of the raft log since the start of the node, one in 100 took more than 128ms", "fsync in less than 10 ms", metric(writes("osqueue_raft_log_write_seconds", "", 0.256))},
		{"disk nearly full", "the disk of --data has 95MiB free", "enlarge the disk", metric("# TYPE osqueue_disk_free_bytes gauge\nosqueue_disk_free_bytes 1e+08\n")},
		{"writes refused", "10.0.0.1:8080: writes are refused: the bucket is 6m behind", "repair the bucket", leader(func(s *v1.Status) {
			s.Refusing, s.FlushError = "the bucket is 6m behind: timeout; writes are refused until it catches up", "timeout"
		})},
		{"flush fails", "n1, the leader, cannot write to the bucket: access denied", "its credentials", leader(func(s *v1.Status) { s.FlushError = "access denied" })},
		{"archive damaged", "log/7 is missing", "osqueue verify", leader(func(s *v1.Status) { s.ArchiveError = "log/7 is missing" })},
		{"states differ", "n2 differs", "States differ", leader(func(s *v1.Status) { s.StateError = "n2 differs" })},
		{"snapshot damaged", "a local snapshot is damaged: 2-70", "replace the disk", leader(func(s *v1.Status) { s.Snapshots = &v1.Snapshots{Damaged: "2-70"} })},
		{"inbox fails", "the inbox cannot be emptied: no list", "inbox/", leader(func(s *v1.Status) { s.Inbox = &v1.Inbox{Failing: "no list"} })},
		{"bucket behind", "the bucket is behind: 5 entries, 410 B, for 1m30s", "repair the bucket", leader(func(s *v1.Status) { s.LagEntries, s.LagBytes, s.LagMs = 5, 410, 90_000 })},
		{"bucket behind", "for 6s", "repair the bucket", leader(func(s *v1.Status) { s.LagEntries, s.LagMs, s.MaxFlushLagMs = 5, 6000, 10_000 })},
		{"bucket slow", "half of the 1000 writes of queue.json since the start of the node took more than 1.02s", "region of the nodes", metric(writes("osqueue_bucket_request_seconds", `op="put_if_match",result="committed",`, 2.048))},
		{"bucket unsafe", "s3://jobs: probe the bucket: the bucket is not safe to use: it ignores If-Match", "conditional writes refuse", func(s *snapshot) {
			s.bucket.err = fmt.Errorf("probe the bucket: %w: it ignores If-Match", probe.ErrUnsafe)
		}},
		{"bucket away", "s3://jobs: no such host", "credentials", func(s *snapshot) { s.bucket.err = errors.New("no such host") }},
		{"budget exceeded", "cost $9.00 a month at the rate of the last hour, and may cost $5.00", "--bucket-budget", leader(func(s *v1.Status) { s.Bucket.ProjectedUSD = 9 })},
		{"dead jobs grow", "mail: 12 jobs became dead in the last hour; mail has most of the dead jobs: 4", "osqueue dead ls --type mail", func(s *snapshot) { s.queue.history.Minutes[0].Dead = 7 }},
		{"quota near", "--max-jobs: 950 jobs have not ended, of at most 1000", "or raise --max-jobs", func(s *snapshot) { s.queue.stats.Total, s.queue.stats.Scheduled = 900, 50 }},
		{"quota near", "--max-bytes: jobs, batches and schedules have", "or raise --max-bytes", func(s *snapshot) { s.queue.stats.Bytes = 999_999 }},
		{"quota of a type near", "mail: 95 jobs of mail have not ended, of at most 100", "osqueue queue set mail", func(s *snapshot) { s.queue.queues[0].Unclaimed = 95 }},
		{"quota of a type near", "mail: the jobs of mail have 1000KiB, of at most 1MiB", "osqueue queue set mail", func(s *snapshot) { s.queue.queues[0].Bytes = 1_024_000 }},
	}
	seeded := map[string]bool{}
	for _, f := range faults {
		t.Run(f.check+" "+f.what, func(t *testing.T) {
			seeded[f.check] = true
			s := healthy(t)
			f.seed(s)
			found := s.findings(allChecks)
			if f.check == "no leader" { // the node that led is away, too
				found = found[:min(1, len(found))]
			}
			if len(found) != 1 || found[0].Check != f.check || !strings.Contains(found[0].At+": "+found[0].What, f.what) || !strings.Contains(found[0].Cure, f.cure) {
				t.Errorf("found %v", found)
			}
		})
	}
	for _, c := range allChecks {
		if !seeded[c.name] {
			t.Errorf("no fault is seeded for %q", c.name)
		}
	}
}

// The page has every check with its cure.
func TestPageOfTheChecks(t *testing.T) {
	page, err := os.ReadFile("../../../docs/operations/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range allChecks {
		if row := fmt.Sprintf("| %s | ", c.name); !strings.Contains(string(page), row) {
			t.Errorf("docs/operations/doctor.md has no row %q", row)
		}
	}
}
