package client

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"

	"osqueue/client/contexts"
)

// The defaults of the fields of Config.
const (
	DefaultAttemptTimeout = 5 * time.Second
	DefaultRetryFor       = 30 * time.Second
	DefaultAckWait        = 10 * time.Second
	DefaultMaxAnswerBytes = 64 << 20
)

// Freshness is how recent the answers to reads are, and which nodes answer them.
type Freshness uint8

// The kinds of freshness.
const (
	// ReadLeader reads from the leader, and sees every write that was answered
	// before the read, by any client.
	ReadLeader Freshness = iota
	// ReadOwnWrites reads from any node, and sees at least the writes and reads of
	// this client. It takes load from the leader.
	ReadOwnWrites
	// ReadAny reads from any node, which may be behind the leader.
	ReadAny
)

// Config describes a cluster and how a client calls it. Only Servers is required;
// the zero value of every other field selects its default.
type Config struct {
	// Servers are the nodes of one cluster, each as host:port, as a host (port
	// 8080), or as a URL. List all of them. The client calls other nodes only if none of these
	// answers: then those that the cluster had as members when it was last asked.
	Servers []string
	// AttemptTimeout is the time limit of one request, without the time that a long
	// poll asks the server to wait.
	AttemptTimeout time.Duration
	// RetryFor is how long the client repeats a call after its first failure. The
	// context of the call may end it earlier. A negative value means no repetition.
	RetryFor time.Duration
	// Ack is the ack level of writes; WithAck overrides it for one
	// call. It does not apply to claims, heartbeats, progress and registrations:
	// the caller repeats them when they are lost, so without WithAck they ask for
	// no level and do not wait.
	Ack Ack
	// AckWait is how long a write that asks for AckObject waits for the bucket.
	AckWait time.Duration
	// Reads is the freshness of reads.
	Reads Freshness
	// MaxAnswerBytes is the size limit of an answer, which the client reads into
	// memory. The limit of answers to claims is at least DefaultMaxAnswerBytes,
	// because the jobs in them are leased by then. The server bounds their payloads
	// by 16 MiB plus one job.
	MaxAnswerBytes int64
	// Token is an access token, osq_…, which the client sends with every request. Empty: the
	// environment variable OSQUEUE_TOKEN, if it is set. Without TLS it is sent to loopback
	// addresses only, or if Servers say http://.
	Token string
	// Cipher, if given, encrypts the payloads of new jobs, and the results, errors, logs and
	// messages of progress in reports; and decrypts them in claims, jobs and events. Type,
	// tags, group, unique key and schedule stay readable. Package seal makes one.
	Cipher Cipher
	// SealedOnly refuses payloads and results that are not encrypted: a claimed job has
	// OpenErr, and Job and WaitJob return a *SealError. Set it when all producers and
	// workers encrypt.
	SealedOnly bool
	// UserAgent is the value of the User-Agent header.
	UserAgent string
	// TLS, if given, is used for connections to the nodes, and servers without a scheme
	// are called by https. LoadTLS makes one from files. Nil: the CA of the file that the
	// environment variable OSQUEUE_CA names, unless Transport is given; without the variable
	// no TLS for servers without a scheme.
	TLS *tls.Config
	// Transport replaces the connection pool of this package; TLS then only chooses the
	// scheme.
	Transport http.RoundTripper
	// Protocol selects how the client sends writes and claims: over streams that its callers
	// share, or over HTTP. Everything else uses HTTP.
	Protocol Protocol
	// Logger receives repetitions of calls at level debug. Nil means no log.
	Logger *slog.Logger
}

// endless replaces longer times, and endlessBytes larger sizes, so that sums of a
// few of them do not overflow.
const (
	endless      = 10 * 366 * 24 * time.Hour
	endlessBytes = math.MaxInt64 / 2
)

// memberURL returns the base URL of a member whose address a server has named, or "" if the client
// must not call it: an address of loopback means this machine only if the server is on it, and a
// token for this machine stays on it.
func memberURL(server, address string) string {
	from, err := url.Parse(server)
	if err != nil || address == "" {
		return ""
	}
	u, err := url.Parse(from.Scheme + "://" + address)
	if err != nil || u.Host != address || isLoopback(u.Hostname()) != isLoopback(from.Hostname()) {
		return ""
	}
	return u.String()
}

// withDefaults sets the defaults of unset fields and returns an error for invalid
// ones.
func (c Config) withDefaults() (Config, error) {
	if file := os.Getenv(contexts.EnvCA); file != "" && c.TLS == nil && c.Transport == nil {
		secure, err := LoadTLS(file, "", "")
		if err != nil {
			return c, fmt.Errorf("%s: %w", contexts.EnvCA, err)
		}
		c.TLS = secure
	}
	c.Token, c.UserAgent, c.RetryFor = cmp.Or(c.Token, os.Getenv(contexts.EnvToken)), cmp.Or(c.UserAgent, "osqueue-go"), cmp.Or(c.RetryFor, DefaultRetryFor)
	c.Logger = cmp.Or(c.Logger, slog.New(slog.DiscardHandler))
	servers, err := c.baseURLs()
	if err != nil {
		return c, err
	}
	c.Servers = servers
	c.AttemptTimeout = min(positiveOr(c.AttemptTimeout, DefaultAttemptTimeout), endless)
	if err := checkAck(c.Ack); err != nil {
		return c, err
	}
	switch c.Protocol {
	case ProtocolAuto, ProtocolHTTP, ProtocolStream:
	default:
		return c, fmt.Errorf("protocol %q: want %q, %q or nothing", c.Protocol, ProtocolHTTP, ProtocolStream)
	}
	if c.SealedOnly && c.Cipher == nil {
		return c, errSealedOnly
	}
	c.AckWait = min(positiveOr(c.AckWait, DefaultAckWait), endless)
	c.MaxAnswerBytes = min(positiveOr(c.MaxAnswerBytes, DefaultMaxAnswerBytes), endlessBytes)
	return c, nil
}

var errSealedOnly = errors.New("SealedOnly needs a Cipher")

func positiveOr[T ~int64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

var errNoServers = errors.New("no servers given; name the nodes of the cluster as host:port")

// baseURLs converts the servers to base URLs without duplicates.
func (c *Config) baseURLs() ([]string, error) {
	var out []string
	for _, s := range c.Servers {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		u, err := c.baseURL(s)
		if err != nil {
			return nil, err
		}
		if !slices.Contains(out, u) {
			out = append(out, u)
		}
	}
	if len(out) == 0 {
		return nil, errNoServers
	}
	return out, nil
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// defaultPort is the port of a server that is given as a host only.
const defaultPort = "8080"

// baseURL converts a server to a base URL. A token goes over a network without TLS only if the server
// says http://.
func (c *Config) baseURL(server string) (string, error) {
	full := server
	plain := !strings.Contains(full, "://")
	switch {
	case plain && c.TLS != nil:
		full = "https://" + full
	case plain:
		full = "http://" + full
	}
	u, err := url.Parse(full)
	if err == nil && plain && u.Host != "" && u.Port() == "" {
		u.Host = net.JoinHostPort(u.Hostname(), defaultPort)
	}
	switch {
	case err != nil:
		return "", fmt.Errorf("server %q is not host:port or a URL: %w", server, err)
	case u.Scheme != "http" && u.Scheme != "https":
		return "", fmt.Errorf("server %q: scheme %q is not http or https", server, u.Scheme)
	case u.Host == "" || u.RawQuery != "" || u.Fragment != "":
		return "", fmt.Errorf("server %q is not host:port or a URL of a node", server)
	case plain && c.TLS == nil && c.Transport == nil && c.Token != "" && !isLoopback(u.Hostname()):
		return "", fmt.Errorf("server %q: the access token would be sent without TLS: give the cluster's CA (Config.TLS, --ca or OSQUEUE_CA), or write http://%s if you want that", server, u.Host)
	}
	return strings.TrimRight(u.String(), "/"), nil
}

// FromContext returns the configuration for the cluster of a context, which "osqueue context
// add" or "osqueue dev" has made. Name "" means the context of OSQUEUE_CONTEXT, else the
// current one. OSQUEUE_SERVERS, OSQUEUE_CA and OSQUEUE_TOKEN override its parts. The caller may
// change the result before it calls New. An error means that a context is named that cannot be
// read, or that there is neither a context nor OSQUEUE_SERVERS.
func FromContext(name string) (Config, error) {
	r, err := contexts.Of(os.Getenv).Resolve(contexts.Given{Context: name}, os.Getenv)
	if err != nil {
		return Config{}, err
	}
	if len(r.Servers) == 0 {
		return Config{}, fmt.Errorf("no cluster is known: set %s, or make a context with osqueue context add", contexts.EnvServers)
	}
	cfg := Config{Servers: r.Servers, Token: r.Token}
	if r.CA != "" {
		if cfg.TLS, err = TLSOf([]byte(r.CA), "", ""); err != nil {
			return Config{}, err
		}
	}
	return cfg, nil
}
