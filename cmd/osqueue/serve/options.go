package serve

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/spf13/pflag"

	"osqueue/api/core"
	"osqueue/cluster"
	"osqueue/cmd/osqueue/view"
	"osqueue/internal/host"
	"osqueue/internal/web"
	"osqueue/storage/bucketurl"
	"osqueue/storage/cost"
	"osqueue/storage/throttle"
)

// serveOptions are the settings of serve, before they are checked together.
type serveOptions struct {
	config         string         // file with settings; "": none
	given          *serveOptions  // with what flags and the environment give only, before complete
	flags          *pflag.FlagSet // of the settings
	node           cluster.Config
	bucket         string
	bucketSSE      string // encryption at rest; "": the bucket's own setting
	bucketKey      string
	budget         throttle.Config
	httpAddr       string
	allowedHosts   string
	peers          string
	bodyLimit      int64
	inflightBytes  int64
	memoryTarget   int64
	maxConnections int
	maxPerAddress  int
	maxWaiting     int
	quotas         quotaOptions
	pastMemory     int64
	dashboard      string
	logLevel       string
	logJSON        bool
	recent         recentLog
	pace           pace
	compat         compatOptions
	tls            tlsOptions
	security       securityOptions
	legacy         legacyOptions
	hooks          hookOptions
	withStdin      bool
	hosts          web.Hosts // of allowedHosts, and the names of the nodes
	notices        []string  // for the log
}

// complete checks the flags together and fills in values that depend on others.
func (o *serveOptions) complete(g *view.Globals) error {
	c := &o.node
	o.completeLog(g)
	c.Version = g.Version
	c.Clock = nodeClock(c.Logger, g.Getenv)
	c.BeforeLogWrite = diskFault(g.Getenv)
	c.Security.Network = g.Network
	c.Settings.MaxJobs, c.Settings.MaxBytes = o.quotas.of(host.Memory())
	for _, step := range []func() error{
		o.checkBucketURL,
		func() error { return o.security.check(o.tls.given()) },
		o.knowNodes,
		o.legacy.check,
		o.hooks.check,
		o.completeAddresses,
		o.checkHTTP,
		o.completeHosts,
		func() error { return o.pace.complete(o.bucket, c) },
		o.compat.complete,
		func() error { return o.tls.complete(c, o.security.mode) },
		o.checkExposure,
	} {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// completeLog makes the logger.
func (o *serveOptions) completeLog(g *view.Globals) {
	o.node.Logger = hclog.New(&hclog.LoggerOptions{Name: o.node.Name, Level: hclog.LevelFromString(o.logLevel), Output: io.MultiWriter(&o.recent, g.Err), JSONFormat: o.logJSON})
	for _, notice := range o.notices {
		o.node.Logger.Warn(notice)
	}
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
	if o.maxPerAddress < 0 || o.maxPerAddress > o.maxConnections {
		return fmt.Errorf("--max-connections-per-address %d: must lie between 1 and --max-connections, or be 0 for half of that", o.maxPerAddress)
	}
	if least := 4 * o.bodyLimit; o.inflightBytes < least {
		return fmt.Errorf("--inflight-bytes %d: must be at least %d, four times --body-limit", o.inflightBytes, least)
	}
	return nil
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
	case !o.tls.given() && o.security.mode == core.SecurityOn:
		w = append(w, "--security=on without certificates: tokens travel in clear text, and every program that reaches the raft port can act as a node")
	}
	if n := o.budget.ReadsPerMinute; n > 0 && n <= standbyReads {
		w = append(w, fmt.Sprintf("--bucket-reads-per-minute %d: while another cluster owns the bucket, this one stands by and may never take over; "+
			"it needs more than %d", n, standbyReads))
	}
	return w
}

// checkExposure refuses addresses that other machines reach, unless the node has a certificate
// and checks tokens.
func (o *serveOptions) checkExposure() error {
	for _, a := range []struct{ flag, address string }{{"--http-addr", o.httpAddr}, {"--raft-addr", o.node.RaftAddr}} {
		switch {
		case onLoopback(a.address):
		case !o.tls.given():
			return fmt.Errorf("%s %s is reachable from other machines, and this node has no certificate: make one with osqueue init "+
				"and give it with --tls-ca, --tls-cert and --tls-key, or use an address on loopback", a.flag, a.address)
		case o.security.mode == core.SecurityOff:
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

// onLoopback reports whether an address is on loopback, or empty.
func onLoopback(addr string) bool {
	host, _, err := net.SplitHostPort(addr)
	ip := net.ParseIP(host)
	return addr == "" || err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// storeSpan is the value of a flag that is a duration. Without it the default of the store counts, which is not
// shown.
func storeSpan(to **time.Duration) pflag.Value {
	return view.Value(to, "duration", func(text string) (*time.Duration, error) {
		d, err := view.ParseSpan(text)
		return &d, err
	}, func(d *time.Duration) string {
		if d == nil {
			return ""
		}
		return d.String()
	})
}

// given returns the value of a flag, or else the default.
func given(d *time.Duration, otherwise time.Duration) time.Duration {
	if d == nil {
		return otherwise
	}
	return *d
}

// The quotas that --max-jobs=auto and --max-bytes=auto stand for. A job that waits takes about
// 500 bytes without its payload, so with both the state takes at most about half of the memory.
const (
	quotaShare   = 4         // a part of the memory for jobs, batches and schedules
	bytesPerJob  = 1 << 10   // of that part
	leastMemory  = 256 << 20 // less counts as this
	unknownBytes = 4 << 30   // the memory of a machine that does not tell

	pastShare = 8 // the part of the memory for earlier states (--past-memory=auto)
)

// quotaOptions are the flags of the quotas of the whole queue.
type quotaOptions struct{ jobs, bytes int64 }

// of returns the quotas on a machine with memory bytes; 0 is unknown.
func (o quotaOptions) of(memory int64) (jobs, bytes int64) {
	part := shareOf(memory, quotaShare)
	return unlessAuto(o.jobs, part/bytesPerJob), unlessAuto(o.bytes, part)
}

// shareOf returns a part of memory bytes; 0 is unknown memory.
func shareOf(memory, share int64) int64 {
	if memory == 0 {
		memory = unknownBytes
	}
	return max(memory, leastMemory) / share
}

// auto is the value of a flag whose value follows from the machine.
const auto = -1

func unlessAuto(n, otherwise int64) int64 {
	if n == auto {
		return otherwise
	}
	return n
}

// orAuto is the value of a flag that parse reads, or auto.
func orAuto(to *int64, kind string, parse func(string) (int64, error)) pflag.Value {
	return view.Value(to, kind, func(text string) (int64, error) {
		if text == "auto" {
			return auto, nil
		}
		return parse(text)
	}, func(n int64) string {
		if n == auto {
			return "auto"
		}
		return strconv.FormatInt(n, 10)
	})
}

func parseCount(text string) (int64, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q: write auto, 0 for no limit, or a positive number", text)
	}
	return n, nil
}

// pace contains the flags for the rate of flushes, the budget of the bucket, and the
// limits when the bucket lags behind.
type pace struct {
	ack       string
	interval  *time.Duration // nil: that of the store, as the next two
	heartbeat *time.Duration
	timeout   *time.Duration
	inbox     inboxOptions
	budget    string
	prices    string
	load      int64

	plan       cost.Plan // computed from the flags
	priceList  string    // the store whose price list is used
	priceGuess bool      // whether the store's own prices are unknown
}

// paces are the defaults by kind of store: GCS takes one write a second to an object, S3
// charges for each request, and directories are fast and free. urgent is the interval of flushes
// while a request waits for the bucket.
var paces = map[string]struct{ flush, urgent, inbox, idle, heartbeat, timeout time.Duration }{
	"mem":  {flush: 50 * time.Millisecond, inbox: time.Second, idle: time.Second, heartbeat: 3 * time.Second, timeout: 10 * time.Second},
	"file": {flush: 50 * time.Millisecond, inbox: time.Second, idle: time.Second, heartbeat: 3 * time.Second, timeout: 10 * time.Second},
	"s3":   {flush: time.Second, inbox: 10 * time.Second, idle: 5 * time.Minute, heartbeat: 10 * time.Second, timeout: 30 * time.Second},
	"gs":   {flush: 1100 * time.Millisecond, urgent: 1100 * time.Millisecond, inbox: 10 * time.Second, idle: 5 * time.Minute, heartbeat: 10 * time.Second, timeout: 30 * time.Second},
}

// complete checks the flags together, and fills in the values that depend on the store.
func (p *pace) complete(bucket string, c *cluster.Config) (err error) {
	scheme, _, _ := strings.Cut(bucket, "://")
	own := paces[scheme]
	c.Flush.Interval = given(p.interval, own.flush)
	c.Flush.UrgentInterval = min(c.Flush.Interval, own.urgent)
	c.BrokerTimeout = given(p.timeout, own.timeout)
	c.Flush.Heartbeat = given(p.heartbeat, min(own.heartbeat, (c.BrokerTimeout/3).Truncate(time.Millisecond)))
	if err := p.checkTimes(c); err != nil {
		return err
	}
	if err := p.inbox.complete(own.inbox, own.idle); err != nil {
		return err
	}
	p.plan = cost.Plan{}
	if p.budget != "" {
		if p.plan.Budget, err = cost.ParseMoney(p.budget); err != nil {
			return fmt.Errorf("--bucket-budget: %w", err)
		}
	}
	listed, source, known := cost.PricesOf(bucket)
	if p.plan.Prices, err = cost.ParsePrices(p.prices, listed); err != nil {
		return fmt.Errorf("--bucket-prices: %w", err)
	}
	p.priceList, p.priceGuess = source, !known && p.prices == ""
	if p.plan.Prices.Put > 0 {
		c.Flush.SaveRequests()
	}
	p.plan.Repeated = append(c.Repeated(p.load), p.inbox.repeated())
	if err := p.plan.Check(); err != nil {
		return fmt.Errorf("--bucket-budget: %w", err)
	}
	return nil
}

// checkTimes compares the times. If a flush may come later than the heartbeat, another
// cluster may consider this one dead.
func (p *pace) checkTimes(c *cluster.Config) error {
	heartbeat := c.Flush.Heartbeat
	switch {
	case c.Flush.Interval <= 0:
		return fmt.Errorf("--flush-interval %v: must be positive", c.Flush.Interval)
	case heartbeat <= 0:
		return fmt.Errorf("--broker-heartbeat %v: must be positive", heartbeat)
	case c.Flush.Interval > heartbeat:
		return fmt.Errorf("--flush-interval %v: must not be longer than --broker-heartbeat, %v: the heartbeats are flushes",
			c.Flush.Interval, heartbeat)
	}
	return nil
}
