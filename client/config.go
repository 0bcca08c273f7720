package client

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/hashicorp/go-hclog"
)

// The defaults of Config.
const (
	DefaultAttemptTimeout = 5 * time.Second
	DefaultRetryFor       = 30 * time.Second
	DefaultAckWait        = 10 * time.Second
	DefaultMaxAnswerBytes = 64 << 20
)

// Freshness says how fresh the answers to reads are, and who gives them.
type Freshness uint8

// The kinds of freshness.
const (
	// ReadLeader shows every write that was answered before, whoever made it.
	ReadLeader Freshness = iota
	// ReadOwnWrites shows at least what this client has written or seen. Any
	// node answers, which spares the leader.
	ReadOwnWrites
	// ReadAny shows what the asked node happens to have.
	ReadAny
)

// Config says which cluster to talk to, and how patiently. Only Servers is
// required.
type Config struct {
	// Servers are the nodes of one cluster, as host:port, as a host with the port
	// 8080, or as URL. Name all
	// of them: a node that is not listed is never asked.
	Servers []string
	// AttemptTimeout bounds one request, without the time that a long poll
	// asks the server to wait.
	AttemptTimeout time.Duration
	// RetryFor is for how long after its first failure a call is repeated. The
	// call's context may end it earlier. Negative: never repeat.
	RetryFor time.Duration
	// Ack is how safe writes are to be before they are answered; WithAck says it
	// for one call. It is not meant for claims and signs of life (heartbeats,
	// progress, registrations): what is lost of these is done again, so they ask
	// for nothing, and wait for nothing, without WithAck.
	Ack Ack
	// AckWait is how long a write that asks for AckObject waits for the bucket.
	AckWait time.Duration
	// Reads says how fresh the answers to reads are.
	Reads Freshness
	// MaxAnswerBytes bounds the answers that are read into memory. Those to
	// claims, whose payloads the server bounds by 16 MiB and a job, are read up to
	// DefaultMaxAnswerBytes at least: the jobs are leased by then.
	MaxAnswerBytes int64
	// UserAgent is sent with each request.
	UserAgent string
	// Transport replaces the package's own connection pool.
	Transport http.RoundTripper
	// Logger gets retries at level debug. Nil: no log.
	Logger hclog.Logger
}

// endless stands for times that are longer, and that bytes for more: sums of a few
// of them stay what they are.
const (
	endless      = 10 * 366 * 24 * time.Hour
	endlessBytes = math.MaxInt64 / 2
)

// withDefaults fills what is unset and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	servers, err := baseURLs(c.Servers)
	if err != nil {
		return c, err
	}
	c.Servers = servers
	c.AttemptTimeout = min(positiveOr(c.AttemptTimeout, DefaultAttemptTimeout), endless)
	if c.RetryFor == 0 {
		c.RetryFor = DefaultRetryFor
	}
	if err := checkAck(c.Ack); err != nil {
		return c, err
	}
	c.AckWait = min(positiveOr(c.AckWait, DefaultAckWait), endless)
	c.MaxAnswerBytes = min(positiveOr(c.MaxAnswerBytes, DefaultMaxAnswerBytes), endlessBytes)
	if c.UserAgent == "" {
		c.UserAgent = "osqueue-go"
	}
	if c.Logger == nil {
		c.Logger = hclog.NewNullLogger()
	}
	return c, nil
}

func positiveOr[T ~int64](v, otherwise T) T {
	if v > 0 {
		return v
	}
	return otherwise
}

var errNoServers = errors.New("no servers given; name the nodes of the cluster as host:port")

// baseURLs brings the servers into one form, without repetitions.
func baseURLs(servers []string) ([]string, error) {
	var out []string
	for _, s := range servers {
		if s = strings.TrimSpace(s); s == "" {
			continue
		}
		u, err := baseURL(s)
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

// defaultPort is the port of a server that is given as a host alone.
const defaultPort = "8080"

func baseURL(server string) (string, error) {
	full := server
	plain := !strings.Contains(full, "://")
	if plain {
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
	}
	return strings.TrimRight(u.String(), "/"), nil
}
