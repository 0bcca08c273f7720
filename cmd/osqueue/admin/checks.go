package admin

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
	"osqueue/storage/probe"
)

// doctorCheck is one row of the table of doctor. find is a pure function of what was gathered. In the cure, {} is the place of
// the finding.
type doctorCheck struct {
	name string
	find func(*snapshot) []finding
	cure string
}

// finding is one fault: at a node, member, type or bucket.
type finding struct {
	Check string `json:"check"`
	At    string `json:"at"`
	What  string `json:"what"`
	Cure  string `json:"cure"`
}

// statusChecks are those that need only the statuses of the nodes. The command status has them as notes.
var statusChecks = []doctorCheck{
	{
		"writes refused", whereStatus(refused),
		"repair the bucket or the way of {} to it: writes return by themselves (docs/operations/recovery.md, The bucket is away)",
	},
	{
		"flush fails", whereStatus(flushFails),
		"repair the bucket, its credentials or the way of {} to it; if the other nodes can use it, stop {}",
	},
	{"archive damaged", whereStatus(func(s *v1.Status) string { return s.ArchiveError }), "osqueue verify BUCKET-URL (docs/operations/verify.md)"},
	{"states differ", whereStatus(func(s *v1.Status) string { return s.StateError }), "stop the node that differs, and delete its data directory (docs/operations/recovery.md, States differ)"},
	{"snapshot damaged", whereStatus(snapshotDamaged), "none is needed if the next snapshot replaces it within a minute; else replace the disk of {}"},
	{"inbox fails", whereStatus(inboxFails), "let the leader list and delete below inbox/ in the bucket: its log has the error"},
	{"even votes", evenVotes, "add a node, or remove one: osqueue cluster add, osqueue cluster remove (docs/operations/members.md)"},
}

// nodeChecks are about the nodes and the way to them.
var nodeChecks = []doctorCheck{
	{"no leader", noLeader, "start nodes until a majority runs; osqueue status shows them (docs/operations/recovery.md)"},
	{"node away", nodeAway, "start the node at {} (systemctl start osqueue) and read the end of its log; if it runs, open its HTTP port to this machine"},
	{"certificate refused", whereRefused(false), "--ca ca.crt of this cluster, or the context that has it (osqueue context ls); the address must be in the certificate of {}"},
	{"certificate ended", whereRefused(true), "osqueue cert renew where ca.key is; copy the certificate and the key to {}"},
	{"certificate ends soon", whereNode(certificateEnds), "osqueue cert sign where ca.key is: {} waits for it"},
	{"no right to read", noRight, "--token-file with a token of the role reader: osqueue token create --role reader"},
	{"figures missing", figuresMissing, "run osqueue doctor again; if it stays, read the log of {}"},
	{"another cluster", anotherCluster, "take {} out of --servers and the context, or start it with --bucket and --peers of this cluster"},
	{"member silent", memberSilent, "open --raft-addr of {} to the other nodes, and check its --raft-advertise"},
	{"member without address", memberWithoutAddress, "start {} with the --peers of the others; if it is gone for good: osqueue cluster remove {}"},
	{"no vote", noVote, "wait until {} has the log of the leader; if it does not get there, read its log (docs/operations/members.md)"},
	{"member behind", memberBehind, "look for a slow disk or network of {}"},
	{"clock wrong", clockWrong, "run NTP on {} and on the leader: timedatectl set-ntp true"},
	{"versions differ", versionsDiffer, "install one release on all nodes (docs/operations/upgrade.md)"},
	{"feature level held", levelHeld, "restart the nodes without --feature-level, unless you need a way back (docs/operations/upgrade.md)"},
	{"few descriptors", whereNode(fewDescriptors), "LimitNOFILE=65536 in the unit of {} (in a shell: ulimit -n 65536), then restart it"},
	{"disk slow", whereNode(diskSlow), "give --data of {} a disk that writes 4 KiB with fsync in less than 10 ms (docs/operations/sizing.md)"},
	{"disk nearly full", whereNode(diskFull), "enlarge the disk of --data on {}, or delete other files there"},
}

// queueChecks are about the bucket and the jobs.
var queueChecks = []doctorCheck{
	{"bucket behind", whereStatus(bucketBehind), "repair the bucket or the way of {} to it; on a slow line raise --bucket-write-timeout and --broker-timeout"},
	{"bucket slow", whereNode(bucketSlow), "use a bucket in the region of the nodes, or raise --flush-interval (docs/operations/bucket.md)"},
	{"bucket unsafe", probeFinds(true), "move to a store whose conditional writes refuse: S3, GCS or a directory (docs/operations/bucket.md)"},
	{"bucket away", probeFinds(false), "check the URL, the credentials and the network of this machine: osqueue inspect BUCKET-URL"},
	{"budget exceeded", whereStatus(budgetExceeded), "raise --bucket-budget or --flush-interval (docs/operations/cost.md)"},
	{"dead jobs grow", deadGrow, "osqueue dead ls --type {} shows the errors; then osqueue dead retry or osqueue dead rm"},
	{"quota near", quotaNear, "add workers, osqueue dead rm, shorten --retain-completed, or raise {} on all nodes"},
	{"quota of a type near", typeQuotaNear, "add workers for {}, or osqueue queue set {} with a larger limit"},
}

// allChecks is the whole table.
var allChecks = slices.Concat(nodeChecks, statusChecks, queueChecks)

// findings runs checks on a snapshot.
func (s *snapshot) findings(checks []doctorCheck) (all []finding) {
	for _, c := range checks {
		for _, f := range c.find(s) {
			f.Check, f.Cure = c.name, strings.ReplaceAll(c.cure, "{}", f.At)
			all = append(all, f)
		}
	}
	return all
}

// The limits of the checks.
const (
	certificateLeft = 14 * 24 * time.Hour // as in the alert OsqueueCertificateEnds
	silenceMost     = 5 * time.Second     // of a member; the leader asks every 100 ms
	behindMost      = 10_000              // log entries, as in the alert OsqueueFollowerLags
	clockMost       = time.Second         // from which the nodes log an error
	descriptorsMin  = 8192                // --max-connections, as many WebSockets or streams, and files
	descriptorsUsed = 0.8
	diskWriteMost   = 0.1 // s, of 99 % of the writes of the raft log
	diskWritesMin   = 100
	diskFreeMin     = 1 << 30
	lagMost         = time.Minute // as in the alert OsqueueBucketLag
	bucketWriteMost = 1.0         // s, of half of the writes
	bucketWritesMin = 10
	deadMost        = 10 // in historyMinutes, as --dead-grew of hooks
	quotaUsed       = 0.9
)

// whereStatus returns the findings at the nodes whose status has a fault.
func whereStatus(fault func(*v1.Status) string) func(*snapshot) []finding {
	return whereNode(func(n *examined) string { return fault(&n.Status) })
}

// whereNode returns the findings at the nodes that have answered and have a fault.
func whereNode(fault func(*examined) string) func(*snapshot) []finding {
	return func(s *snapshot) (out []finding) {
		for i := range s.nodes {
			n := &s.nodes[i]
			if n.Err != nil {
				continue
			}
			if what := fault(n); what != "" {
				out = append(out, finding{At: hostOf(n.Server), What: what})
			}
		}
		return out
	}
}

// statuses returns the answers of the nodes to GET /status.
func (s *snapshot) statuses() []client.NodeStatus {
	out := make([]client.NodeStatus, len(s.nodes))
	for i, n := range s.nodes {
		out[i] = n.NodeStatus
	}
	return out
}

// whereMember returns the findings at the members, as the active leader sees them.
func (s *snapshot) whereMember(fault func(leader *v1.Status, p *v1.Peer) string) (out []finding) {
	i := leaderIndex(s.statuses())
	if i < 0 {
		return nil
	}
	leader := &s.nodes[i].Status
	for j := range leader.Peers {
		if what := fault(leader, &leader.Peers[j]); what != "" {
			out = append(out, finding{At: leader.Peers[j].Name, What: what})
		}
	}
	return out
}

func refused(s *v1.Status) string {
	if s.Refusing == "" {
		return ""
	}
	return "writes are refused: " + strings.Replace(s.Refusing, "; writes are refused until it catches up", "", 1)
}

func flushFails(s *v1.Status) string {
	if e := s.FlushError; e != "" && !strings.Contains(s.Refusing, e) {
		return fmt.Sprintf("%s, the leader, cannot write to the bucket: %s (it hands leadership over when another node can)", s.NodeID, e)
	}
	return ""
}

func snapshotDamaged(s *v1.Status) string {
	if s.Snapshots == nil || s.Snapshots.Damaged == "" {
		return ""
	}
	return "a local snapshot is damaged: " + s.Snapshots.Damaged
}

func inboxFails(s *v1.Status) string {
	if s.Inbox == nil || s.Inbox.Failing == "" {
		return ""
	}
	return "the inbox cannot be emptied: " + s.Inbox.Failing
}

func evenVotes(s *snapshot) []finding {
	if what := evenText(s.statuses()); what != "" {
		return []finding{{At: "cluster", What: what}}
	}
	return nil
}

// evenText describes an even number of voters; "": it is odd, or unknown.
func evenText(nodes []client.NodeStatus) string {
	list, _ := members(nodes)
	n := 0
	for _, p := range list {
		if p.Voter {
			n++
		}
	}
	return evenVoters(n)
}

// evenVoters describes n voters; "": n is odd, or unknown.
func evenVoters(n int) string {
	if n == 0 || n%2 == 1 {
		return ""
	}
	return fmt.Sprintf("%d nodes vote, which survives no more losses than %d", n, n-1)
}

func noLeader(s *snapshot) []finding {
	if err := leaderless(s.statuses()); err != nil {
		return []finding{{At: "cluster", What: err.Error()}}
	}
	return nil
}

// refusesCertificate reports whether the other end of a connection had no certificate that this client accepts, and
// whether that one has ended.
func refusesCertificate(err error) (refuses, ended bool) {
	invalid := x509.CertificateInvalidError{}
	if errors.As(err, &invalid) {
		return true, invalid.Reason == x509.Expired
	}
	return errors.As(err, new(x509.UnknownAuthorityError)) || errors.As(err, new(x509.HostnameError)) ||
		errors.As(err, new(tls.RecordHeaderError)) || errors.As(err, new(*tls.CertificateVerificationError)), false
}

// cause is why a node did not answer.
func cause(err error) error {
	if e := (*client.Error)(nil); errors.As(err, &e) && len(e.Tried) == 1 {
		return e.Tried[0].Err
	}
	return err
}

func nodeAway(s *snapshot) (out []finding) {
	for _, n := range s.nodes {
		if refuses, _ := refusesCertificate(cause(n.Err)); n.Err != nil && !refuses {
			out = append(out, finding{At: hostOf(n.Server), What: "the node does not answer: " + cause(n.Err).Error()})
		}
	}
	return out
}

func whereRefused(end bool) func(*snapshot) []finding {
	return func(s *snapshot) (out []finding) {
		for _, n := range s.nodes {
			if refuses, ended := refusesCertificate(cause(n.Err)); refuses && ended == end {
				out = append(out, finding{At: hostOf(n.Server), What: "the certificate does not count: " + cause(n.Err).Error()})
			}
		}
		return out
	}
}

func certificateEnds(n *examined) string {
	at, ok := n.gauge("osqueue_certificate_expiry_timestamp_seconds")
	if left := time.Unix(int64(at), 0).Sub(n.now()); ok && left < certificateLeft {
		return fmt.Sprintf("the certificate of the node ends in %s", view.SpanText(max(left, 0).Truncate(time.Hour)))
	}
	return ""
}

// now is the time of the machine of a node, which its figures count from.
func (n *examined) now() time.Time { return time.UnixMilli(n.Status.WallClock) }

func noRight(s *snapshot) []finding {
	for _, n := range s.nodes {
		if n.Err == nil && (withheld(n.NodeStatus) || errors.Is(n.metricsErr, errNoRight)) {
			return []finding{{At: hostOf(n.Server), What: "members, metrics and jobs are not shown without a token that may read: most checks found nothing to look at"}}
		}
	}
	return nil
}

func figuresMissing(s *snapshot) (out []finding) {
	out = whereNode(func(n *examined) string {
		if n.metricsErr == nil || errors.Is(n.metricsErr, errNoRight) {
			return ""
		}
		return fmt.Sprintf("the metrics of the node cannot be read: %v", n.metricsErr)
	})(s)
	if s.queue.err != nil && len(noRight(s)) == 0 && leaderless(s.statuses()) == nil {
		out = append(out, finding{At: "the leader", What: fmt.Sprintf("the figures of the queue cannot be read: %v", s.queue.err)})
	}
	return out
}

func anotherCluster(s *snapshot) []finding {
	statuses := s.statuses()
	i := leaderIndex(statuses)
	if i < 0 {
		i = slices.IndexFunc(statuses, func(n client.NodeStatus) bool { return n.Err == nil })
	}
	return whereStatus(func(other *v1.Status) string {
		if own := &statuses[i].Status; other.Cluster != own.Cluster && other.Cluster != "" && own.Cluster != "" {
			return fmt.Sprintf("%s there is a node of another cluster than %s at %s", other.NodeID, own.NodeID, hostOf(statuses[i].Server))
		}
		return ""
	})(s)
}

func memberSilent(s *snapshot) []finding {
	return s.whereMember(func(leader *v1.Status, p *v1.Peer) string {
		away := func(n examined) bool { return n.Err != nil && hostOf(n.Server) == p.HTTPAddress }
		switch {
		case p.Leader || slices.ContainsFunc(s.nodes, away): // the check of the node says why
		case p.LastContactMs == nil:
			return fmt.Sprintf("%s has not answered this leader, %s, at %s", p.Name, leader.NodeID, p.RaftAddress)
		case *p.LastContactMs > silenceMost.Milliseconds():
			return fmt.Sprintf("%s has not answered the leader, %s, at %s for %s", p.Name, leader.NodeID, p.RaftAddress, msShort(*p.LastContactMs))
		}
		return ""
	})
}

func memberWithoutAddress(s *snapshot) []finding {
	return s.whereMember(func(leader *v1.Status, p *v1.Peer) string {
		if p.HTTPAddress != "" {
			return ""
		}
		return fmt.Sprintf("%s is a member, and %s does not know its HTTP address: it has not joined since, and is not in --peers", p.Name, leader.NodeID)
	})
}

func noVote(s *snapshot) []finding {
	return s.whereMember(func(_ *v1.Status, p *v1.Peer) string {
		if p.Voter || p.NonVoter {
			return ""
		}
		return p.Name + " is a member without a vote"
	})
}

func memberBehind(s *snapshot) []finding {
	return s.whereMember(func(leader *v1.Status, p *v1.Peer) string {
		if p.LogIndex == nil || *p.LogIndex+behindMost >= leader.CommitIndex {
			return ""
		}
		return fmt.Sprintf("%s lacks %d log entries", p.Name, leader.CommitIndex-*p.LogIndex)
	})
}

func clockWrong(s *snapshot) []finding {
	return s.whereMember(func(leader *v1.Status, p *v1.Peer) string {
		if p.ClockOffsetMs == nil || (time.Duration(*p.ClockOffsetMs)*time.Millisecond).Abs() <= clockMost {
			return ""
		}
		return fmt.Sprintf("the clock of %s differs by %s from that of the leader, %s", p.Name, offsetText(*p.ClockOffsetMs), leader.NodeID)
	})
}

func versionsDiffer(s *snapshot) []finding {
	var each, versions []string
	for _, n := range s.nodes {
		if n.Err != nil || n.Status.Version == "" {
			continue
		}
		each = append(each, fmt.Sprintf("%s runs %s", n.Status.NodeID, n.Status.Version))
		versions = append(versions, n.Status.Version)
	}
	slices.Sort(versions)
	if len(slices.Compact(versions)) < 2 {
		return nil
	}
	return []finding{{At: "cluster", What: strings.Join(each, ", ")}}
}

// levelHeld finds a state whose level all nodes could raise: one has --feature-level, or a member is away.
func levelHeld(s *snapshot) []finding {
	known, level := uint32(math.MaxUint32), uint32(0)
	for _, n := range s.nodes {
		if n.Err == nil && n.Status.KnownLevel > 0 {
			known, level = min(known, n.Status.KnownLevel), max(level, n.Status.FeatureLevel)
		}
	}
	if known == math.MaxUint32 || level >= known {
		return nil
	}
	return []finding{{At: "cluster", What: fmt.Sprintf("the state has feature level %d, and all nodes know %d", level, known)}}
}

func fewDescriptors(n *examined) string {
	most, known := n.gauge("process_max_fds")
	open, _ := n.gauge("process_open_fds")
	switch {
	case !known:
	case open > descriptorsUsed*most:
		return fmt.Sprintf("the process has %.0f of at most %.0f descriptors open", open, most)
	case most < descriptorsMin:
		return fmt.Sprintf("the process may open %.0f descriptors, and needs %d for its connections", most, descriptorsMin)
	}
	return ""
}

func diskSlow(n *examined) string {
	s, writes := quantile(n.metric("osqueue_raft_log_write_seconds").GetHistogram(), 0.99)
	if writes < diskWritesMin || s < diskWriteMost {
		return ""
	}
	return fmt.Sprintf("of the %d writes of the raft log since the start of the node, one in 100 took more than %s", writes, msShort(int64(s*1000)))
}

func diskFull(n *examined) string {
	free, ok := n.gauge("osqueue_disk_free_bytes")
	if !ok || free >= diskFreeMin {
		return ""
	}
	return fmt.Sprintf("the disk of --data has %s free", view.BytesText(int64(free)))
}

func bucketBehind(s *v1.Status) string {
	if most := lagMost.Milliseconds(); s.LagMs <= most && (s.MaxFlushLagMs == 0 || s.LagMs <= s.MaxFlushLagMs/2) {
		return ""
	}
	return "the bucket is behind: " + behindText(*s)
}

func bucketSlow(n *examined) string {
	h := n.metric("osqueue_bucket_request_seconds", "op", "put_if_match", "result", "committed").GetHistogram()
	if s, writes := quantile(h, 0.5); writes >= bucketWritesMin && s >= bucketWriteMost {
		return fmt.Sprintf("half of the %d writes of queue.json since the start of the node took more than %s", writes, msShort(int64(s*1000)))
	}
	return ""
}

func probeFinds(unsafe bool) func(*snapshot) []finding {
	return func(s *snapshot) []finding {
		if s.bucket == nil || s.bucket.err == nil || errors.Is(s.bucket.err, probe.ErrUnsafe) != unsafe {
			return nil
		}
		return []finding{{At: s.bucket.url, What: s.bucket.err.Error()}}
	}
}

func budgetExceeded(s *v1.Status) string {
	b := s.Bucket
	if b == nil || b.BudgetUSD == 0 || b.ProjectedUSD <= b.BudgetUSD || s.WallClock-b.Since < projectable.Milliseconds() {
		return ""
	}
	return fmt.Sprintf("the requests to the bucket cost %s a month at the rate of the last hour, and may cost %s", dollars(b.ProjectedUSD), dollars(b.BudgetUSD))
}

func deadGrow(s *snapshot) []finding {
	died := uint64(0)
	for _, m := range s.queue.history.Minutes {
		died += m.Dead
	}
	if died < deadMost {
		return nil
	}
	most, dead := "", -1
	for name, t := range s.queue.stats.Types {
		if t.Dead > dead || t.Dead == dead && name < most {
			most, dead = name, t.Dead
		}
	}
	at := v1.QueueName(most)
	return []finding{{At: at, What: fmt.Sprintf("%d jobs became dead in the last hour; %s has most of the dead jobs: %d", died, at, max(dead, 0))}}
}

func quotaNear(s *snapshot) []finding {
	i := leaderIndex(s.statuses())
	if i < 0 || s.queue.err != nil {
		return nil
	}
	n, stats := &s.nodes[i], &s.queue.stats
	var out []finding
	if most, ok := n.gauge("osqueue_jobs_max"); ok {
		if open := stats.Total + stats.Scheduled + stats.Blocked; float64(open) >= quotaUsed*most {
			out = append(out, finding{At: "--max-jobs", What: fmt.Sprintf("%d jobs have not ended, of at most %.0f", open, most)})
		}
	}
	if most, ok := n.gauge("osqueue_jobs_bytes_max"); ok && float64(stats.Bytes) >= quotaUsed*most {
		out = append(out, finding{At: "--max-bytes", What: fmt.Sprintf("jobs, batches and schedules have %s, of at most %s", view.BytesText(stats.Bytes), view.BytesText(int64(most)))})
	}
	return out
}

func typeQuotaNear(s *snapshot) (out []finding) {
	for _, q := range s.queue.queues {
		open := int64(q.Scheduled + q.Unclaimed + q.InProgress + q.Blocked)
		at, set := v1.QueueName(q.Type), q.Settings
		if set.MaxJobs > 0 && float64(open) >= quotaUsed*float64(set.MaxJobs) {
			out = append(out, finding{At: at, What: fmt.Sprintf("%d jobs of %s have not ended, of at most %d (maxJobs)", open, at, set.MaxJobs)})
		}
		if set.MaxBytes > 0 && float64(q.Bytes) >= quotaUsed*float64(set.MaxBytes) {
			out = append(out, finding{At: at, What: fmt.Sprintf("the jobs of %s have %s, of at most %s (maxBytes)", at, view.BytesText(q.Bytes), view.BytesText(set.MaxBytes))})
		}
	}
	return out
}
