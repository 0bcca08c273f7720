package serve

import (
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/compat/osqueue"
	"osqueue/internal/auth/oidc"
	"osqueue/internal/limit"
	"osqueue/storage"
)

// setting is a flag, an environment variable and a field of the file of --config: raft-addr is
// --raft-addr, OSQUEUE_RAFT_ADDR and raft-addr.
type setting struct {
	name  string
	value any // a pflag.Value, or a pointer to a basic type; it has the default
	usage string
}

// group is a part of the help.
type group struct {
	title  string
	shown  []setting
	hidden []setting // rarely needed, so only in docs/settings.md
}

// newOptions returns options with their defaults.
func newOptions() *serveOptions {
	limits := osqueue.DefaultLimits()
	o := &serveOptions{
		node:           cluster.DefaultConfig(),
		httpAddr:       "127.0.0.1:8080",
		bodyLimit:      core.DefaultBodyBytes,
		inflightBytes:  limit.DefaultBytes,
		memoryTarget:   defaultMemoryTarget,
		maxConnections: core.DefaultConnections,
		maxWaiting:     core.DefaultWaits,
		quotas:         quotaOptions{jobs: auto, bytes: auto},
		pastMemory:     auto,
		dashboard:      uiOn,
		logLevel:       "info",
		pace:           pace{ack: v1.AckQuorum},
		compat:         compatOptions{origins: osqueue.OriginsNone, sockets: limits.Connections, messageLimit: limits.MessageBytes},
		security: securityOptions{
			programs: core.DefaultPrograms(), algorithms: oidc.DefaultAlgorithms, leeway: oidc.DefaultLeeway,
			auditFull: auditRefuse, auditKept: defaultAuditKept,
		},
		legacy: legacyOptions{types: []string{allTypes}},
	}
	c := &o.node
	c.Name, c.DataDir, c.HTTPAdvertise, c.RaftAdvertise, c.FeatureLevel = "n1", "osqueue-data", "", "", 0
	c.Settings.WorkerTimeoutMs = time.Minute.Milliseconds()
	return o
}

// settings is the table of all settings.
func (o *serveOptions) settings() []group {
	c, limits := &o.node, osqueue.DefaultLimits()
	return []group{
		{title: "Node", shown: []setting{
			{"name", &c.Name, "name of this node, unique in the cluster"},
			{"data", &c.DataDir, "directory for the raft log, snapshots and identity"},
			{"bucket", &o.bucket, "where queue.json lives: file:///dir, s3://bucket/prefix?region=…&endpoint=…, gs://bucket/prefix, mem://"},
			{"peers", &o.peers, "the nodes that form a new cluster as name=host:port of the HTTP API, comma separated, the same on each; to join a cluster, any of its addresses, also host:port or srv:RECORD without a name (default: this node alone)"},
		}},
		{title: "Addresses", shown: []setting{
			{"http-addr", &o.httpAddr, "host:port of the HTTP API"},
			{"http-advertise", &c.HTTPAdvertise, "host:port by which others reach the HTTP API (default: --http-addr)"},
			{"raft-addr", &c.RaftAddr, "host:port for the other nodes"},
			{"raft-advertise", &c.RaftAdvertise, "host:port by which the other nodes reach this one (default: --raft-addr)"},
			{"allowed-hosts", &o.allowedHosts, "further host names in URLs of this node, comma separated: names, .example.test for all below it, or any; addresses, localhost, --http-advertise and the names in --peers are allowed always; requests with other names get 421"},
		}, hidden: []setting{
			{"cors-origins", &o.compat.origins, "pages of other origins that may use the API in a browser: none, any, or origins like https://dash.example.test, comma separated"},
			{"max-connections", view.From(&o.maxConnections, 1), "how many HTTP connections may be open; requests on further ones are refused with 503, except health checks and metrics"},
			{"max-connections-per-address", &o.maxPerAddress, "how many of them may come from one address; give --max-connections if a proxy is in front (default: half of --max-connections)"},
			{"max-waiting", view.From(&o.maxWaiting, leastWaiting), "how many requests may wait for a job or a log, each about 16 KiB; one client gets at most half; a claim counts once more for every 32 types and 16 KiB of its body; further ones are refused with 503"},
			{"inflight-bytes", view.Size(&o.inflightBytes), "how much all request bodies and answers that are under way may take together, as in 136MiB; more is refused with 503"},
			{"ws-connections", view.From(&o.compat.sockets, 1), "how many WebSockets there may be at once"},
			{"ws-message-limit", view.Between(&o.compat.messageLimit, 1, limits.MessageBytes), "largest message of a WebSocket, or of gRPC and Connect, in bytes"},
		}},
		{title: "Security", shown: []setting{
			{"security", view.Choice(&o.security.mode, core.SecurityOff, core.SecurityLog, core.SecurityOn), "on: connections need TLS and requests an access token; log: accept and warn about what on would refuse, to change a cluster; off: for loopback only (default: on with --tls-cert, else off)"},
			{"tls-ca", &o.tls.files.CA, "file with the certificates of the cluster's CA (see osqueue init)"},
			{"tls-cert", &o.tls.files.Cert, "file with this node's certificate; with it all ports use TLS, and only nodes reach the raft port"},
			{"tls-key", &o.tls.files.Key, "file with the private key of --tls-cert"},
			{"tls-ca-key", &o.tls.caKey, "file with the private key of the CA: this node then signs the certificates of nodes that join or renew theirs (default: osqueue cert sign does)"},
			{"bootstrap-token", &o.security.bootstrapFile, "the bootstrap.json of osqueue init: its token becomes the first one of a cluster that has none"},
			{"roles-file", &o.security.rolesFile, "file (YAML) with rules that give roles to client certificates and to JWTs"},
			{"oidc-issuer", &o.security.issuer, "URL of the OpenID Connect provider whose JWTs count as identities; needs --oidc-audience and --roles-file"},
			{"oidc-audience", &o.security.audience, "audience (claim aud) that JWTs must have"},
			{"program-types", &o.security.programs, "patterns of the types whose workers run programs from the payload; only tokens made with --programs may enqueue them"},
			{"audit-log", &o.security.auditLog, "file for the audit log, one JSON object per line, which SIGHUP opens again; - is stdout (default: none)"},
		}, hidden: []setting{
			{"oidc-algorithms", &o.security.algorithms, "signature algorithms of JWTs that count"},
			{"oidc-leeway", &o.security.leeway, "largest difference between the clocks of the provider and of this machine, at most 5m"},
			{"audit-full", view.Choice(&o.security.auditFull, auditRefuse, auditDrop), "what happens while the file of the audit log takes nothing and 8192 entries wait for it. refuse: changes get 503 until it does; drop: they continue, and the log gets the number of entries that it lacks"},
			{"audit-memory", view.Size(&o.security.auditKept), "how much of the newest audit log a node keeps in memory for osqueue audit without a file, as in 1MiB; 0 is none; with --security=off only if --audit-log is given"},
		}},
		{title: "Bucket", shown: []setting{
			{"flush-interval", storeSpan(&o.pace.interval), "least time between two writes to the bucket that no request waits for (default: 50ms for file and mem, 1s for s3, 1.1s for gs)"},
			{"max-flush-lag", &c.MaxFlushLag, "how far the bucket may be behind before writes are refused, and how long a cluster that this one does not know of waits before it takes over; longer than --broker-timeout; 0 is no limit, and such a cluster waits until the bucket is released"},
			{"broker-heartbeat", storeSpan(&o.pace.heartbeat), "most time between two writes to the bucket, at most a third of --broker-timeout (default: 3s for file and mem, 10s for s3 and gs)"},
			{"broker-timeout", storeSpan(&o.pace.timeout), "time without a change of the document after which a standby that the document names takes the broker of another cluster for dead (default: 10s for file and mem, 30s for s3 and gs)"},
			{"pitr-window", &c.Flush.Window, "how far back states can be restored from the bucket"},
			{"inbox-interval", storeSpan(&o.pace.inbox.interval), "how often jobs are taken out of the bucket's inbox/; 0 is never (default: 1s for file and mem, 10s for s3 and gs)"},
			{"bucket-sse", &o.bucketSSE, "encryption at rest that every write to the bucket asks for: s3, kms or kms-dsse on S3, kms on Google's store (default: the bucket's own setting)"},
			{"bucket-sse-key", &o.bucketKey, "key of the store's key management service for --bucket-sse kms: an id, an ARN or projects/…/cryptoKeys/… (default on S3: the account's key)"},
			{"bucket-budget", &o.pace.budget, "what the bucket's requests may cost a month, as in 5usd; flushes are spread so that it lasts; 0 is no limit"},
		}, hidden: []setting{
			{"bucket-load", view.Size(&o.pace.load), "bytes of log entries a second that --bucket-budget must suffice for, about the payload and 500 bytes for each job, as in 100KB; 0 is an idle queue"},
			{"bucket-prices", &o.pace.prices, "dollars for 1000 requests and for a GB where they differ from the list, as in put=0.005,get=0.0004,list=0.005,delete=0,written=0,read=0"},
			{"bucket-reads-per-minute", view.From(&o.budget.ReadsPerMinute, 0), "limit on reads of the bucket; 0 is none"},
			{"bucket-writes-per-minute", view.From(&o.budget.WritesPerMinute, 0), "limit on writes to the bucket; 0 is none"},
			{"bucket-writes-per-day", view.From(&o.budget.WritesPerDay, 0), "limit on writes to the bucket a day; 0 is none"},
			{"bucket-write-timeout", view.SpanFrom(&c.Flush.WriteTimeout, 1), "how long one write of the document may take; on a slow line raise --broker-timeout with it"},
			{"flush-bandwidth", view.From(&c.Flush.Bandwidth, 0), "bytes a second that writing to the bucket may take on average; 0 is no limit"},
			{"inbox-idle-interval", storeSpan(&o.pace.inbox.idle), "the same while nothing arrives there: an eighth of the time since the last file, at most so long (default: --inbox-interval if that is given, or else 1s for file and mem, 5m for s3 and gs)"},
			{"inbox-types", &o.pace.inbox.types, "patterns of the types that files of the inbox may have (default: all; with --security=on all but --program-types)"},
			{"archive-check", &c.ArchiveCheck, "how often the leader looks by a listing whether all that queue.json names is there; 0 is never"},
			{"archive-read", &c.ArchiveRead, "in which time the leader reads once all that queue.json names, and compares checksums; 0 is never"},
			{"standby-interval", &c.StandbyInterval, "how often a standby cluster announces itself in the bucket, and the active leader looks for one"},
			{"standby-retry", &c.StandbyRetry, "how often a standby looks whether the other broker is dead; at least four times in a broker timeout"},
			{"rival-policy", &c.RivalPolicy, "what the active leader does when it cannot reach the bucket for the broker timeout and a standby cluster is known: refuse (the standby may take over then) or continue (until --max-flush-lag, and the standby waits as long)"},
		}},
		{title: "Jobs", shown: []setting{
			{"ack", view.Choice(&o.pace.ack, v1.AckQuorum, v1.AckObject), "when a write is answered that does not say: quorum (a majority of the nodes has it on disk) or object (the bucket has it, too)"},
			{"lease", view.Ms(&c.Settings.LeaseMs), "how long a job is leased between two heartbeats, unless the job or its worker says otherwise"},
			{"max-attempts", view.From(&c.Settings.MaxAttempts, 1), "attempts of a job that names no number"},
			{"worker-timeout", view.Ms(&c.Settings.WorkerTimeoutMs), "silence after which a registered worker is dead"},
			{"retain-completed", view.Ms(&c.Settings.RetainCompletedMs), "how long completed, cancelled and expired jobs, and batches that have ended, are kept, unless the type says otherwise"},
			{"retain-completed-count", view.From(&c.Settings.RetainCompletedCount, 0), "how many completed, cancelled and expired jobs of a type are kept, unless the type says otherwise"},
			{"max-jobs", orAuto(&o.quotas.jobs, "count", parseCount), "how many jobs that have not ended there may be; auto is one for each 4KiB of the memory of this machine or container, 0 is no limit"},
			{"max-bytes", orAuto(&o.quotas.bytes, "size", view.ParseSize), "how many bytes all jobs, batches and schedules may have (payloads, results, logs, names, tags and headers), as in 256MiB; auto is a quarter of the memory of this machine or container, 0 is no limit"},
			{"max-payload", view.Size(&c.Settings.MaxPayload), "how large one payload may be, as in 64KiB; 0 is no limit but --body-limit"},
		}, hidden: []setting{
			{"body-limit", view.Between(&o.bodyLimit, 1, core.MaxBodyBytes), fmt.Sprintf("largest request body in bytes, at most %d", core.MaxBodyBytes)},
			{"idempotency-window", view.Ms(&c.Settings.RequestMs), "how long idempotency keys are remembered"},
			{"idempotency-keys", view.From(&c.Settings.RequestCount, 0), "how many idempotency keys are remembered; one whose request named many jobs counts once more for every 10 of them"},
			{"events-kept", view.From(&c.EventsKept, 1), "how many of the newest events are kept in memory for streams that resume"},
			{"past-memory", orAuto(&o.pastMemory, "size", view.ParseSize), "memory for earlier states that readers ask for (at= in the API, the page Past of the dashboard), which are rebuilt from the bucket, as in 256MiB; auto is an eighth of the memory of this machine or container, 0 rebuilds none"},
		}},
		{title: "Webhooks", shown: []setting{
			{"hook-allow", &o.hooks.allow, "network or address that is not public and that webhooks may reach as well, such as 10.0.0.0/8; may be given several times (default: public addresses only)"},
			{"hook-key-file", &o.hooks.keyFile, "file with keys of 32 bytes in Base64, one a line, that seal the secrets of webhooks in the state; the same on all nodes; the first one seals, all open (default: the state has the secrets in clear)"},
		}, hidden: []setting{
			{"hook-ca", &o.hooks.caFile, "PEM file with further certificates that receivers of webhooks may have (default: those of the system)"},
		}},
		{title: "Clients of the older systems", shown: []setting{
			{"legacy-http-addr", &o.legacy.address, "host:port for clients of the legacy broker and of dtq, which know neither TLS nor tokens: it serves their routes only, without either, whatever --security is (default: none)"},
			{"legacy-allow", &o.legacy.allow, "networks whose connections --legacy-http-addr accepts, comma separated: CIDR, loopback, or private (loopback, private and link-local addresses) (default: loopback; needed for other addresses than those of loopback)"},
		}, hidden: []setting{
			{"legacy-types", &o.legacy.types, "patterns of the types that the clients of --legacy-http-addr may use; * is all; types that run programs (--program-types) are refused to them"},
		}},
		{title: "Log and dashboard", shown: []setting{
			{"ui", view.Choice(&o.dashboard, uiOn, uiReadOnly, uiOff), "dashboard for browsers at /ui: on, read-only (no actions) or off"},
			{"log-level", view.Choice(&o.logLevel, "trace", "debug", "info", "warn", "error"), "trace, debug, info, warn or error"},
			{"log-json", &o.logJSON, "write the log as JSON lines"},
		}},
		{title: "Raft and the process", hidden: []setting{
			{"raft-heartbeat", &c.HeartbeatTimeout, "silence of the leader after which a follower calls an election"},
			{"raft-election", &c.ElectionTimeout, "how long an election may take before the next one"},
			{"raft-lease", &c.LeaseTimeout, "how long a leader without a majority stays leader"},
			{"raft-snapshot-threshold", &c.SnapshotThreshold, "entries after which the raft log is truncated"},
			{"raft-snapshot-interval", &c.SnapshotInterval, "how often the node checks whether to truncate the raft log; each interval is randomly up to twice as long"},
			{"raft-trailing-logs", &c.TrailingLogs, "entries kept in the log after a truncation, for followers that lag"},
			{"disk-stall-limit", &c.LogStallLimit, "how long one write of the raft log may take before the node ends, so that another one leads"},
			{"state-check-interval", &c.StateCheck, "how often the leader has the nodes compare their states; a node with another state than the majority ends; 0 is never"},
			{"feature-level", &c.FeatureLevel, "highest feature level that the cluster may take; give it to all nodes to be able to go back to a release of this level (default: the highest that all nodes know)"},
			{"memory-target", view.Size(&o.memoryTarget), "size to which the heap may grow before garbage is collected, as in 96MiB; a heap with more in use may double before; 0 collects as often as possible"},
			{"stop-with-stdin", &o.withStdin, "stop when standard input ends: for programs that start nodes and must not leave them behind"},
		}},
	}
}

// bind makes the flags of all settings.
func (o *serveOptions) bind(f *pflag.FlagSet) {
	o.flags = pflag.NewFlagSet("settings", pflag.ContinueOnError)
	o.flags.SortFlags = false
	for _, g := range o.settings() {
		for _, s := range g.shown {
			s.bind(o.flags)
		}
		for _, s := range g.hidden {
			s.bind(o.flags)
			o.flags.Lookup(s.name).Hidden = true
		}
	}
	f.StringVar(&o.config, "config", "", "file (YAML) with settings, each with the name of its flag; paths in it count from its directory")
	f.AddFlagSet(o.flags)
}

func (s setting) bind(f *pflag.FlagSet) {
	switch v := s.value.(type) {
	case pflag.Value:
		f.Var(v, s.name, s.usage)
	case *string:
		f.StringVar(v, s.name, *v, s.usage)
	case *[]string:
		f.StringSliceVar(v, s.name, *v, s.usage)
	case *bool:
		f.BoolVar(v, s.name, *v, s.usage)
	case *int:
		f.IntVar(v, s.name, *v, s.usage)
	case *uint32:
		f.Uint32Var(v, s.name, *v, s.usage)
	case *uint64:
		f.Uint64Var(v, s.name, *v, s.usage)
	case *time.Duration:
		f.Var(view.Span(v), s.name, s.usage)
	default:
		panic(fmt.Sprintf("--%s has a value of type %T", s.name, v))
	}
}

// usage prints the flags of serve in their groups.
func (o *serveOptions) usage(g *view.Globals, cmd *cobra.Command) error {
	out := cmd.OutOrStderr()
	width, _ := g.CutWidth()
	if _, err := fmt.Fprintf(out, "Usage:\n  %s\n\nExamples:\n%s\n", cmd.UseLine(), cmd.Example); err != nil {
		return err
	}
	for _, part := range append([]group{{title: "File", shown: []setting{{name: "config"}}}}, o.settings()...) {
		if len(part.shown) == 0 {
			continue
		}
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		flags.SortFlags = false
		for _, s := range part.shown {
			flags.AddFlag(cmd.Flags().Lookup(s.name))
		}
		if _, err := fmt.Fprintf(out, "\n%s:\n%s", part.title, flags.FlagUsagesWrapped(width)); err != nil {
			return err
		}
	}
	return nil
}

// load sets the flags that are not on the command line to their environment variables, the fields of the file of --config,
// or the environment of the legacy broker.
func (o *serveOptions) load(f *pflag.FlagSet, getenv func(string) string) (err error) {
	if err = errors.Join(view.FromEnv(f, getenv), o.fromFile()); err != nil {
		return err
	}
	if o.notices, err = originalFromEnv(f, getenv); err != nil {
		return err
	}
	o.given, err = o.copyGiven()
	return err
}

// fromFile sets the flags that are neither on the command line nor in the environment to the
// fields of the file of --config, if there is one.
func (o *serveOptions) fromFile() error {
	if o.config == "" {
		return nil
	}
	fields, err := view.ReadFields(o.config)
	if err == nil {
		err = fields.Set(o.flags)
	}
	if err != nil {
		return view.Usagef("--config %s: %w", o.config, err)
	}
	return nil
}

// Settings adds the flags of serve to flags, and returns them for osqueue config.
func Settings(g *view.Globals, flags *pflag.FlagSet) view.Settings {
	o := newOptions()
	o.bind(flags)
	return view.Settings{
		Flags: o.flags,
		File:  &o.config,
		Load:  func(cmd *cobra.Command) error { return o.load(cmd.Flags(), g.Getenv) },
		Check: func() ([]string, error) {
			if err := o.complete(g); err != nil {
				return nil, err
			}
			return o.warnings(), o.security.checkOIDC()
		},
		Redact: func(name, value string) string {
			if u, err := url.Parse(value); err == nil && name == "bucket" {
				return storage.RedactURL(u)
			}
			return value
		},
	}
}
