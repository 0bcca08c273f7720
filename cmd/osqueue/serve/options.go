package serve

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"osqueue/api"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/units"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/inflight"
	"osqueue/internal/machine"
	"osqueue/internal/webguard"
	"osqueue/storage/bucketurl"
	"osqueue/storage/throttle"
)

// serveOptions are the flags of serve, before they are checked together.
type serveOptions struct {
	node           cluster.Config
	bucket         string
	bucketSSE      string // encryption at rest; "": the bucket's own setting
	bucketKey      string
	budget         throttle.Config
	httpAddr       string
	allowedHosts   string
	peers          string
	bodyLimit      int64
	inflightBytes  units.Size
	memoryTarget   units.Size
	maxConnections int
	maxPerAddress  int
	maxWaiting     int
	quotas         quotaOptions
	pastMemory     autoSize
	pprofAddr      string
	dashboard      string
	logLevel       string
	logJSON        bool
	pace           pace
	compat         compatOptions
	tls            tlsOptions
	security       securityOptions
	legacy         legacyOptions
	hooks          hookOptions
	withStdin      bool
	hosts          webguard.Hosts // of allowedHosts, and the names of the nodes
	notices        []string       // for the log

	leaseTime       time.Duration
	workerTimeout   time.Duration
	retainCompleted time.Duration
	requestWindow   time.Duration
}

func (o *serveOptions) bind(f *pflag.FlagSet) {
	c := &o.node
	f.StringVar(&c.Name, "name", "n1", "name of this node, unique in the cluster")
	f.StringVar(&c.DataDir, "data", "osqueue-data", "directory for the raft log, snapshots and identity")
	f.StringVar(&o.bucket, "bucket", "", "where queue.json lives: file:///dir, s3://bucket/prefix?region=…&endpoint=…, gs://bucket/prefix, mem://")
	f.StringVar(&o.bucketSSE, "bucket-sse", "", "encryption at rest that every write to the bucket asks for: s3, kms or kms-dsse on S3, kms on Google's store (default: the bucket's own setting)")
	f.StringVar(&o.bucketKey, "bucket-sse-key", "", "key of the store's key management service for --bucket-sse kms: an id, an ARN or projects/…/cryptoKeys/… (default on S3: the account's key)")
	f.StringVar(&o.httpAddr, "http-addr", "127.0.0.1:8080", "host:port of the HTTP API")
	f.StringVar(&c.HTTPAdvertise, "http-advertise", "", "host:port by which others reach the HTTP API (default: --http-addr)")
	f.StringVar(&o.allowedHosts, "allowed-hosts", "", "further host names in URLs of this node, comma separated: names, .example.test for all below it, or any; addresses, localhost, --http-advertise and the names in --peers are allowed always; requests with other names get 421")
	f.StringVar(&o.peers, "peers", "", "all nodes of the cluster as name=host:port of the HTTP API, comma separated (default: this node alone)")
	o.bindRaft(f)
	units.SpanVar(f, &c.StateCheck, "state-check-interval", c.StateCheck, "how often the leader has the nodes compare their states; a node with another state than the majority ends; 0 is never")
	f.Uint32Var(&c.FeatureLevel, "feature-level", 0, "highest feature level that the cluster may take; give it to all nodes to be able to go back to a release of this level (default: the highest that all nodes know)")
	o.tls.bind(f)
	o.pace.bind(f, c)
	o.compat.bind(f)
	o.security.bind(f)
	o.legacy.bind(f)
	o.hooks.bind(f)
	o.bindBucket(f)
	f.Int32Var(&c.Settings.MaxAttempts, "max-attempts", c.Settings.MaxAttempts, "attempts of a job that names no number")
	units.SpanVar(f, &o.leaseTime, "lease", units.FromMs(c.Settings.LeaseMs), "how long a job is leased between two heartbeats, unless the job or its worker says otherwise")
	units.SpanVar(f, &o.workerTimeout, "worker-timeout", time.Minute, "silence after which a registered worker is dead")
	units.SpanVar(f, &o.retainCompleted, "retain-completed", units.FromMs(c.Settings.RetainCompletedMs), "how long completed and cancelled jobs, and batches that have ended, are kept, unless the type says otherwise")
	f.Int64Var(&c.Settings.RetainCompletedCount, "retain-completed-count", c.Settings.RetainCompletedCount, "how many completed and cancelled jobs of a type are kept, unless the type says otherwise")
	o.quotas.bind(f)
	f.Var((*units.Size)(&c.Settings.MaxPayload), "max-payload", "how large one payload may be, as in 64KiB; 0 is no limit but --body-limit")
	units.SpanVar(f, &o.requestWindow, "idempotency-window", units.FromMs(c.Settings.RequestMs), "how long idempotency keys are remembered")
	f.Int64Var(&c.Settings.RequestCount, "idempotency-keys", c.Settings.RequestCount, "how many idempotency keys are remembered; one whose request named many jobs counts once more for every 10 of them")
	f.IntVar(&c.EventsKept, "events-kept", c.EventsKept, "how many of the newest events are kept in memory for streams that resume")
	o.bindHTTP(f)
	f.StringVar(&o.logLevel, "log-level", "info", "trace, debug, info, warn or error")
	f.BoolVar(&o.withStdin, "stop-with-stdin", false, "stop when standard input ends: for programs that start nodes and must not leave them behind")
	f.BoolVar(&o.logJSON, "log-json", false, "write the log as JSON lines")
}

// bindRaft binds the flags of raft and its log.
func (o *serveOptions) bindRaft(f *pflag.FlagSet) {
	c := &o.node
	f.StringVar(&c.RaftAddr, "raft-addr", c.RaftAddr, "host:port for the other nodes")
	f.StringVar(&c.RaftAdvertise, "raft-advertise", "", "host:port by which the other nodes reach this one (default: --raft-addr)")
	units.SpanVar(f, &c.HeartbeatTimeout, "raft-heartbeat", c.HeartbeatTimeout, "silence of the leader after which a follower calls an election")
	units.SpanVar(f, &c.ElectionTimeout, "raft-election", c.ElectionTimeout, "how long an election may take before the next one")
	units.SpanVar(f, &c.LeaseTimeout, "raft-lease", c.LeaseTimeout, "how long a leader without a majority stays leader")
	f.Uint64Var(&c.SnapshotThreshold, "raft-snapshot-threshold", c.SnapshotThreshold, "entries after which the raft log is truncated")
	units.SpanVar(f, &c.SnapshotInterval, "raft-snapshot-interval", c.SnapshotInterval, "how often the node checks whether to truncate the raft log; each interval is randomly up to "+
		"twice as long")
	f.Uint64Var(&c.TrailingLogs, "raft-trailing-logs", c.TrailingLogs, "entries kept in the log after a truncation, for followers that lag")
	units.SpanVar(f, &c.LogStallLimit, "disk-stall-limit", c.LogStallLimit, "how long one write of the raft log may take before the node ends, so that another one leads")
}

// bindHTTP binds the flags that bound HTTP requests, and those of further HTTP services.
func (o *serveOptions) bindHTTP(f *pflag.FlagSet) {
	f.Int64Var(&o.bodyLimit, "body-limit", api.DefaultBodyBytes, fmt.Sprintf("largest request body in bytes, at most %d", api.MaxBodyBytes))
	o.inflightBytes = inflight.DefaultBytes
	f.Var(&o.inflightBytes, "inflight-bytes", "how much all request bodies and answers that are under way may take together, as in 136MiB; more is refused with 503")
	o.pastMemory = auto
	f.Var(&o.pastMemory, "past-memory", "memory for earlier states that readers ask for (at= in the API, the page Past of the dashboard), which are rebuilt from the bucket, as in 256MiB; auto is an eighth of the memory of this machine or container, 0 rebuilds none")
	o.memoryTarget = defaultMemoryTarget
	f.Var(&o.memoryTarget, "memory-target", "size to which the heap may grow before garbage is collected, as in 96MiB; a heap with more in use may double before; 0 collects as often as possible")
	f.IntVar(&o.maxConnections, "max-connections", api.DefaultConnections, "how many HTTP connections may be open; requests on further ones are refused with 503, but for health checks and metrics")
	f.IntVar(&o.maxPerAddress, "max-connections-per-address", 0, "how many of them may come from one address; give --max-connections if a proxy is in front (default: half of --max-connections)")
	f.IntVar(&o.maxWaiting, "max-waiting", api.DefaultWaits, "how many requests may wait for a job or a log, each about 16 KiB; one client gets at most half; a claim counts once more for every 32 types and 16 KiB of its body; further ones are refused with 503")
	f.StringVar(&o.pprofAddr, "pprof-addr", "", "loopback host:port that serves profiles under /debug/pprof/; port 0 takes a free one (default: none)")
	f.StringVar(&o.dashboard, "ui", uiOn, "dashboard for browsers at /ui: on, read-only (no actions) or off")
}

// bindBucket binds the flags that pace and bound requests to the bucket.
func (o *serveOptions) bindBucket(f *pflag.FlagSet) {
	c := &o.node
	f.IntVar(&c.Flush.InlineMax, "inline-max", c.Flush.InlineMax, "bytes up to which queue.json holds the jobs themselves, for everybody to read; larger queues are a base and a log")
	f.IntVar(&c.Flush.Bandwidth, "flush-bandwidth", c.Flush.Bandwidth, "bytes a second that writing to the bucket may take on average; 0 is no limit")
	units.SpanVar(f, &c.Flush.WriteTimeout, "bucket-write-timeout", c.Flush.WriteTimeout, "how long one write of the document may take; on a slow line raise --broker-timeout with it")
	units.SpanVar(f, &c.ArchiveCheck, "archive-check", c.ArchiveCheck, "how often the leader looks by a listing whether all that queue.json names is there; 0 is never")
	units.SpanVar(f, &c.ArchiveRead, "archive-read", c.ArchiveRead, "in which time the leader reads once all that queue.json names, and compares checksums; 0 is never")
	units.SpanVar(f, &c.StandbyInterval, "standby-interval", c.StandbyInterval, "how often a standby cluster announces itself in the bucket, and the active leader looks for one")
	f.StringVar(&c.RivalPolicy, "rival-policy", c.RivalPolicy, "what the active leader does when it cannot reach the bucket for the broker timeout and a standby cluster is known: refuse (the standby may take over then) or continue (until --max-flush-lag, and the standby waits as long)")
	units.SpanVar(f, &c.StandbyRetry, "standby-retry", c.StandbyRetry, "how often a standby looks whether the other broker is dead; at least four times in a broker timeout")
	f.IntVar(&o.budget.ReadsPerMinute, "bucket-reads-per-minute", 0, "limit on reads of the bucket; 0 is none")
	f.IntVar(&o.budget.WritesPerMinute, "bucket-writes-per-minute", 0, "limit on writes to the bucket; 0 is none")
	f.IntVar(&o.budget.WritesPerDay, "bucket-writes-per-day", 0, "limit on writes to the bucket a day; 0 is none")
}

// complete checks the flags together and fills in values that depend on others.
func (o *serveOptions) complete(g *view.Globals) error {
	c := &o.node
	if err := o.completeLog(g); err != nil {
		return err
	}
	c.Version = g.Version
	c.Clock = nodeClock(c.Logger, g.Getenv)
	c.BeforeLogWrite = diskFault(g.Getenv)
	for _, step := range []func() error{
		o.checkBucketURL,
		func() error { return o.security.check(o.tls.given()) },
		o.knowNodes,
		o.legacy.check,
		o.hooks.check,
		o.completeAddresses,
		o.checkHTTP,
		o.completeHosts,
		o.checkBucket,
		func() error { return o.pace.complete(o.bucket, c) },
		o.compat.complete,
		func() error { return o.tls.complete(c, o.security.mode) },
		o.checkExposure,
		o.completeSettings,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// completeLog makes the logger.
func (o *serveOptions) completeLog(g *view.Globals) error {
	level := hclog.LevelFromString(o.logLevel)
	if level == hclog.NoLevel {
		return fmt.Errorf("--log-level %q: use trace, debug, info, warn or error", o.logLevel)
	}
	o.node.Logger = hclog.New(&hclog.LoggerOptions{Name: o.node.Name, Level: level, Output: g.Err, JSONFormat: o.logJSON})
	for _, notice := range o.notices {
		o.node.Logger.Warn(notice)
	}
	return nil
}

func (o *serveOptions) checkBucketURL() error {
	if o.bucket == "" {
		return errors.New("--bucket is missing: give one, for example --bucket file:///srv/osqueue")
	}
	if err := bucketurl.Check(o.bucket); err != nil {
		return fmt.Errorf("--bucket: %w", err)
	}
	encrypted, err := bucketurl.WithEncryption(o.bucket, o.bucketSSE, o.bucketKey)
	if err != nil {
		return fmt.Errorf("--bucket-sse: %w", err)
	}
	o.bucket = encrypted
	return nil
}

// knowNodes takes the names of the cluster's nodes from the file of the first token.
func (o *serveOptions) knowNodes() error {
	if b := o.security.bootstrap; b != nil {
		o.node.Known = b.Nodes
	}
	return nil
}

// completeAddresses checks the addresses by which others reach the node, and the peers.
func (o *serveOptions) completeAddresses() (err error) {
	c := &o.node
	if c.HTTPAdvertise == "" {
		c.HTTPAdvertise = o.httpAddr
	}
	if err = advertisable(c.HTTPAdvertise, "--http-advertise"); err != nil {
		return err
	}
	if c.RaftAdvertise == "" {
		if err = advertisable(c.RaftAddr, "--raft-advertise"); err != nil {
			return err
		}
	}
	if c.Peers, err = cluster.ParsePeers(o.peers); err != nil {
		return fmt.Errorf("--peers: %w", err)
	}
	return nil
}

// leastWaiting lets each client wait with a claim of the longest list of types.
const leastWaiting = 128

// checkHTTP checks the bounds of HTTP requests, and further HTTP services.
func (o *serveOptions) checkHTTP() error {
	if o.bodyLimit <= 0 || o.bodyLimit > api.MaxBodyBytes {
		return fmt.Errorf("--body-limit %d: must lie between 1 and %d", o.bodyLimit, api.MaxBodyBytes)
	}
	if o.maxConnections < 1 {
		return fmt.Errorf("--max-connections %d: must be at least 1", o.maxConnections)
	}
	if o.maxWaiting < leastWaiting {
		return fmt.Errorf("--max-waiting %d: must be at least %d", o.maxWaiting, leastWaiting)
	}
	if o.maxPerAddress < 0 || o.maxPerAddress > o.maxConnections {
		return fmt.Errorf("--max-connections-per-address %d: must lie between 1 and --max-connections, or be 0 for half of that", o.maxPerAddress)
	}
	if least := 4 * o.bodyLimit; int64(o.inflightBytes) < least {
		return fmt.Errorf("--inflight-bytes %d: must be at least %d, four times --body-limit", o.inflightBytes, least)
	}
	if err := loopbackOnly(o.pprofAddr); err != nil {
		return fmt.Errorf("--pprof-addr %q: %w", o.pprofAddr, err)
	}
	return checkUI(o.dashboard)
}

// standbyReads is the number of reads of the bucket a minute that is too small for a standby
// cluster: a refused read restarts its count of the silence of the document.
const standbyReads = 10

// warnings returns what may be a mistake in settings that are possible.
func (o *serveOptions) warnings() []string {
	var w []string
	switch {
	case o.tls.plain:
		w = append(w, "--security=log: all ports accept connections without TLS and requests without a token; start all nodes with --security=on soon")
	case !o.tls.given() && o.security.mode == api.SecurityOn:
		w = append(w, "--security=on without certificates: tokens travel in clear text, and whoever reaches the raft port acts as a node")
	}
	if n := o.budget.ReadsPerMinute; n > 0 && n <= standbyReads {
		w = append(w, fmt.Sprintf("--bucket-reads-per-minute %d: while another cluster owns the bucket, this one stands by and may never take over; "+
			"it needs more than %d", n, standbyReads))
	}
	return w
}

// checkBucket checks the flags for writing the bucket.
func (o *serveOptions) checkBucket() error {
	c := &o.node
	switch {
	case c.Flush.WriteTimeout <= 0:
		return fmt.Errorf("--bucket-write-timeout %v: must be positive", c.Flush.WriteTimeout)
	case c.Flush.InlineMax <= 0:
		return fmt.Errorf("--inline-max %d: must be positive", c.Flush.InlineMax)
	case c.Flush.Bandwidth < 0:
		return fmt.Errorf("--flush-bandwidth %d: must not be negative; 0 is no limit", c.Flush.Bandwidth)
	}
	for _, f := range []struct {
		flag string
		n    int
	}{
		{"--bucket-reads-per-minute", o.budget.ReadsPerMinute},
		{"--bucket-writes-per-minute", o.budget.WritesPerMinute},
		{"--bucket-writes-per-day", o.budget.WritesPerDay},
	} {
		if f.n < 0 {
			return fmt.Errorf("%s %d: must not be negative; 0 is no limit", f.flag, f.n)
		}
	}
	return nil
}

// completeSettings checks the times and counts of the state machine.
func (o *serveOptions) completeSettings() error {
	s := &o.node.Settings
	s.MaxJobs, s.MaxBytes = o.quotas.of(machine.Memory())
	for _, f := range []struct {
		flag string
		d    time.Duration
		ms   *int64
	}{
		{"--lease", o.leaseTime, &s.LeaseMs},
		{"--worker-timeout", o.workerTimeout, &s.WorkerTimeoutMs},
		{"--retain-completed", o.retainCompleted, &s.RetainCompletedMs},
		{"--idempotency-window", o.requestWindow, &s.RequestMs},
	} {
		if f.d < time.Millisecond {
			return fmt.Errorf("%s %v: must be at least 1ms", f.flag, f.d)
		}
		*f.ms = f.d.Milliseconds()
	}
	if s.MaxAttempts < 1 {
		return fmt.Errorf("--max-attempts %d: must be at least 1", s.MaxAttempts)
	}
	for _, f := range []struct {
		flag string
		n    int64
	}{
		{"--retain-completed-count", s.RetainCompletedCount},
		{"--idempotency-keys", s.RequestCount},
	} {
		if f.n < 0 {
			return fmt.Errorf("%s %d: must not be negative", f.flag, f.n)
		}
	}
	if o.node.EventsKept < 1 {
		return fmt.Errorf("--events-kept %d: must be at least 1", o.node.EventsKept)
	}
	return nil
}

// checkExposure refuses addresses that other machines reach, unless the node has a certificate
// and checks tokens.
func (o *serveOptions) checkExposure() error {
	for _, a := range []struct{ flag, address string }{{"--http-addr", o.httpAddr}, {"--raft-addr", o.node.RaftAddr}} {
		switch {
		case loopbackOnly(a.address) == nil:
		case !o.tls.given():
			return fmt.Errorf("%s %s is reachable from other machines, and this node has no certificate: make one with osqueue init "+
				"and give it with --tls-ca, --tls-cert and --tls-key, or use an address on loopback", a.flag, a.address)
		case o.security.mode == api.SecurityOff:
			return fmt.Errorf("%s %s is reachable from other machines: --security=off is for loopback only; use on, "+
				"or log while clients and nodes get their tokens and certificates", a.flag, a.address)
		}
	}
	return nil
}

// advertisable returns an error for an address that other machines cannot use.
func advertisable(addr, flag string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("address %q: write host:port", addr)
	}
	if ip := net.ParseIP(host); host == "" || (ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("other nodes cannot reach %q: give the address that they use with %s", addr, flag)
	}
	return nil
}

// loopbackOnly returns an error for an address that is not on loopback. An empty address
// is allowed.
func loopbackOnly(addr string) error {
	if addr == "" {
		return nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return errors.New("write host:port")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return errors.New("must be on loopback, for example 127.0.0.1:6060: profiles show what is in memory")
	}
	return nil
}
