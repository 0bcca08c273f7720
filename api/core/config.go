package core

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/prometheus/client_golang/prometheus"

	"osqueue/api/hooks"
	v1 "osqueue/client/api/v1"
	"osqueue/cluster/membership"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/auth"
	"osqueue/internal/limit"
)

// Config configures a Server and its limits. Only Backend is required; the zero
// value of every other field selects its default.
type Config struct {
	Backend Backend
	// Metrics receives the metrics of the server, and is served on /metrics. Only one Server
	// can use a registry.
	Metrics *prometheus.Registry
	// MaxBody bounds the body of a request, in bytes; at most MaxBodyBytes.
	MaxBody int64
	// Inflight bounds the bytes of bodies and answers in memory; nil means no bound.
	Inflight *limit.Budget
	// MaxConnections bounds the open connections of a listener that Serve is given; 0:
	// DefaultConnections.
	MaxConnections int
	// ConnectionsEach bounds the open connections from one address; 0: half of MaxConnections.
	ConnectionsEach int
	// Ack is the default ack level of writes: v1.AckQuorum (also "") or v1.AckObject.
	Ack string
	// Throttle returns the effects of the limits on requests to the bucket; nil means that
	// there are no limits.
	Throttle func() v1.ThrottleStats
	// Inbox returns the counts of the inbox for /status; nil means that there is no inbox.
	Inbox func() v1.Inbox
	// Past rebuilds earlier states; nil: there are none.
	Past Past
	// Logger receives panics and internal errors, and each request at level debug.
	Logger hclog.Logger
	// Tracer gets every write that was committed; nil means none.
	Tracer Tracer
	// Internal has handlers of other packages, by the prefix of their paths; a prefix ends with
	// a slash. Their requests are passed on unchanged.
	Internal map[string]http.Handler
	// Wrap, unless nil, returns the handler of Serve, for other contracts. native and calls are this server.
	Wrap func(native http.Handler, calls Calls) http.Handler
	// TLS is the configuration of the connections of Serve. Nil means plain HTTP.
	TLS *tls.Config
	// PlainToo allows connections without TLS in addition, while a cluster gets certificates.
	PlainToo bool
	// NodesTrusted says that the connections between nodes have certificates.
	NodesTrusted bool
	// DialNode connects to the port for nodes of the node with an HTTP address. Nil means plain
	// TCP to that address.
	DialNode func(ctx context.Context, network, address string) (net.Conn, error)
	// Transport sends requests to the leader. It must not repeat a request that may have
	// reached the leader.
	Transport http.RoundTripper

	// Objects has the bytes of artefacts. Nil: there are no artefacts.
	Objects Objects

	// Members changes the members of the cluster. Nil: nothing does.
	Members Members
	// Drain stops the node in order. Nil: calls cannot stop it.
	Drain *Drain
	// Hooks delivers the webhooks while this node leads. Nil: nothing does.
	Hooks *hooks.Sender

	Security SecurityConfig
	// Legacy configures ServeLegacy; nil: it is not called.
	Legacy   *LegacyConfig
	Limits   Limits
	Timeouts Timeouts
}

// Members changes the members of the cluster, on the active leader. The changes return what holds, as a
// sentence; they are safe for concurrent use.
type Members interface {
	Add(ctx context.Context, name, address string, nonVoter bool) (done string, err error)
	Remove(ctx context.Context, name string, force bool) (done string, err error)
	Promote(ctx context.Context, name string) (done string, err error)
	Demote(ctx context.Context, name string) (done string, err error)
	// Transfer gives the leadership to a node; "": the voter whose log is the newest.
	Transfer(ctx context.Context, name string) (to string, err error)
	// Waiting returns the nodes that are admitted and have not come.
	Waiting() []membership.Admission
}

// Drain tells the parts of a node that it stops in order: it is not ready any more, hands leadership over, answers the
// requests that it has, and ends. It is safe for concurrent use.
type Drain struct {
	once  sync.Once
	began chan struct{}
}

// NewDrain returns the Drain of a node that runs.
func NewDrain() *Drain { return &Drain{began: make(chan struct{})} }

// Begin begins the stop. It may be called again.
func (d *Drain) Begin() { d.once.Do(func() { close(d.began) }) }

// Began returns a channel that is closed when the stop begins.
func (d *Drain) Began() <-chan struct{} { return d.began }

// Tracer makes spans of writes. It must be safe for concurrent use.
type Tracer interface {
	// Committed is called before the answer to a write that was committed at lsn. The request
	// began at began. The mutation and the result must not be changed.
	Committed(began time.Time, m *fsmpb.Mutation, res fsm.Result, lsn fsm.LSN)
}

// DefaultBodyBytes and MaxBodyBytes are the default and the maximum of Config.MaxBody: a body
// must fit in a log entry.
const (
	DefaultBodyBytes = 1 << 20
	MaxBodyBytes     = 8 << 20
)

// DefaultWaits is the default of Limits.Waits: at most some 130 MiB.
const DefaultWaits = 8192

// Calls makes calls for the client of another contract. Their bodies may have MaxBodyBytes.
type Calls interface {
	// Call makes one call with the credential of ctx. target is an escaped path with its query, remote the address of the
	// client. in is the body, and out gets the answer: pointers to structs of package v1, or nil. A refusal is a problem.
	Call(ctx context.Context, method, target, remote string, in, out any) *v1.Problem
	// Pass is Call for a client that speaks the JSON of the HTTP API: body is what it has sent, and the answer goes into
	// into. whole is false if the answer broke off.
	Pass(ctx context.Context, method, target, remote string, body []byte, into http.ResponseWriter) (whole bool)
}

// Limits bound the sizes in requests and answers. Names are the types and groups of jobs,
// unique keys, the names, versions and addresses of workers and the ids of requests.
type Limits struct {
	BatchJobs    int           // items in one batch call
	ClaimJobs    int           // a claim that asks for more gets so many
	ClaimTypes   int           // types that one claim names
	IDChars      int           // characters of the id of a job or batch
	NameBytes    int           // of a name
	Tags         int           // of one job
	TagBytes     int           // of one tag
	After        int           // jobs that one job waits for
	ErrorBytes   int           // a reported error is cut here
	MessageBytes int           // the message of a progress is cut here
	Depth        int           // objects and lists within each other, in a body
	Lease        time.Duration // length of a lease
	// Delay is the maximum time from now to a scheduled job, and the maximum of all other
	// times: backoffs, timeouts, periods.
	Delay time.Duration

	ListJobs   int // items on one page, such as jobs
	ListScan   int // jobs looked at for one page
	ListBytes  int // a page ends when it is larger
	AllBytes   int // a list of all pages ends with the page in which it becomes larger
	WorkerJobs int // jobs that are named of one worker

	// Of each of these, one client gets at most half.
	Streams int // of events at once
	Waits   int // requests that wait for a job or a log at once, see PlacesOf
}

// DefaultLimits returns the limits that apply if a Config has none.
func DefaultLimits() Limits {
	return Limits{
		BatchJobs:    1000,
		ClaimJobs:    1000,
		ClaimTypes:   1000,
		IDChars:      128,
		NameBytes:    256,
		Tags:         20,
		TagBytes:     100,
		After:        100,
		ErrorBytes:   8 << 10,
		MessageBytes: 1 << 10,
		Depth:        200,
		Lease:        24 * time.Hour,
		Delay:        10 * 366 * 24 * time.Hour,
		ListJobs:     1000,
		ListScan:     20_000,
		ListBytes:    8 << 20,
		AllBytes:     24 << 20,
		WorkerJobs:   100,
		Streams:      256,
		Waits:        DefaultWaits,
	}
}

// Timeouts are the timeouts of a server.
type Timeouts struct {
	Wait    time.Duration // the longest wait that a request can ask for
	Commit  time.Duration // of a write
	Object  time.Duration // for a write to be in the bucket, if it is to be and does not say
	Fresh   time.Duration // for a read to be up to date, if it does not say
	Forward time.Duration // for the leader's answer, in addition to the wait of the request
	Header  time.Duration // to read the head of a request
	Body    time.Duration // to read all of it
	Answer  time.Duration // to write the answer, in addition to the wait of the request
	Past    time.Duration // for an earlier state to be rebuilt; the next request continues to wait
	List    time.Duration // to look for the jobs of one page; the next page continues
	Idle    time.Duration // of a connection between requests
	// KeepAlive is the silence after which a stream of events sends a keepalive.
	KeepAlive time.Duration
}

// DefaultTimeouts returns the timeouts that apply if a Config has none.
func DefaultTimeouts() Timeouts {
	return Timeouts{
		Wait:      time.Minute,
		Commit:    10 * time.Second,
		Object:    10 * time.Second,
		Fresh:     5 * time.Second,
		Forward:   15 * time.Second,
		Header:    5 * time.Second,
		Body:      30 * time.Second,
		Answer:    30 * time.Second,
		Past:      10 * time.Second,
		List:      100 * time.Millisecond,
		Idle:      2 * time.Minute,
		KeepAlive: 15 * time.Second,
	}
}

// claimJobsMax is the maximum number of jobs that the machine returns to one claim.
const claimJobsMax = 16_384

// withDefaults sets the defaults of unset fields, and lowers values that exceed a maximum.
func (c Config) withDefaults() Config {
	c = limit.Defaults(c, Config{
		Logger: hclog.NewNullLogger(), Metrics: prometheus.NewRegistry(), Ack: v1.AckQuorum,
		MaxConnections: DefaultConnections, MaxBody: DefaultBodyBytes,
	})
	if c.MaxBody > MaxBodyBytes {
		c.Logger.Warn("lowered the body limit to what fits into a log entry", "asked", c.MaxBody, "limit", MaxBodyBytes)
		c.MaxBody = MaxBodyBytes
	}
	c.Limits = c.Limits.withDefaults()
	c.Timeouts = limit.Defaults(c.Timeouts, DefaultTimeouts())
	return c
}

func (l Limits) withDefaults() Limits {
	l = limit.Defaults(l, DefaultLimits())
	l.ClaimJobs = min(l.ClaimJobs, claimJobsMax)
	return l
}

// Or returns v, or otherwise if v is not positive.
func Or[T int | int64 | time.Duration](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

// DefaultConnections is the default of Config.MaxConnections.
const DefaultConnections = 4096

// LegacyConfig configures ServeLegacy.
type LegacyConfig struct {
	// Networks are those from which connections are accepted.
	Networks []netip.Prefix
	// Types are globs of the types that the clients may use; none: all.
	Types []string
	// API is the address that refusals name to clients of this API.
	API string
}

// Accepts reports whether an address is in one of the networks.
func (l *LegacyConfig) Accepts(address string) bool {
	a, err := netip.ParseAddr(address)
	if err != nil {
		return false
	}
	a = a.Unmap().WithZone("")
	return slices.ContainsFunc(l.Networks, func(p netip.Prefix) bool { return p.Contains(a) })
}

// The modes of SecurityConfig.
const (
	SecurityOff = "off" // no request needs a token
	SecurityLog = "log" // requests that would be refused are logged
	SecurityOn  = "on"  // requests need a token with the right for their route
)

// SecurityConfig limits the use of the API. The zero value is SecurityOff.
type SecurityConfig struct {
	Mode string
	// Programs are patterns of the types whose workers run programs from the payload; only
	// tokens with that right may enqueue them. Nil: DefaultPrograms.
	Programs []string
	// Bearer returns the principal of a bearer credential that is no token of the queue, such as
	// a JWT. Its errors wrap auth.ErrToken, auth.ErrDenied or auth.ErrUnsure. Nil refuses them.
	Bearer func(ctx context.Context, text string) (*auth.Principal, error)
	// Certificate maps the client certificate of a connection, or on that of a node the header
	// v1.HeaderCertificate, to a principal, and to the value of the header that identifies it to the
	// leader. Nil ignores certificates.
	Certificate func(conn *tls.ConnectionState, header string) (p *auth.Principal, forLeader string, err error)
	// Audit, unless nil, receives writes and refusals. It must not block. admitted says that
	// AdmitChange allowed the change that the entry is about.
	Audit func(e AuditEntry, admitted bool)
	// AdmitChange, unless nil, is asked before each change. Its error refuses the change, because
	// Audit could not keep its entry. It may wait for a moment.
	AdmitChange func(ctx context.Context) error
	// AuditBytes is the size of the newest of these that GET /v1/audit shows; 0: it shows none.
	AuditBytes int64
}

// DefaultPrograms are the types that `osqueue run` and the examples use for programs.
func DefaultPrograms() []string { return []string{"command", "python"} }

// AuditEntry is one line of the audit log.
type AuditEntry = v1.AuditEntry
