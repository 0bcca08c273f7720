package runner

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
)

// Defaults of HTTPConfig, and the headers of the requests.
const (
	DefaultHTTPTimeout = time.Minute
	DefaultHTTPAnswer  = 512 << 10

	HeaderJobID   = "Osqueue-Job-Id"
	HeaderJobType = "Osqueue-Job-Type" // percent-encoded, as a segment of a path
	HeaderAttempt = "Osqueue-Attempt"
	HeaderFence   = "Osqueue-Token" // the fencing token of the claim
)

// maxRetryAfter bounds the delay that a service may ask for.
const maxRetryAfter = 24 * time.Hour

// httpErrorBody is the number of bytes of an answer that a failure quotes.
const httpErrorBody = 1 << 10

// HTTPConfig configures how a service is called. The zero value works.
type HTTPConfig struct {
	// Timeout bounds a request with its answer. Default: one minute.
	Timeout time.Duration
	// MaxAnswer is the maximal size of an answer in bytes. Default: 512 KiB, which fits
	// into a request of 1 MiB even as a JSON string.
	MaxAnswer int64
	// Allow lists networks that may be called although they are not public. Loopback is
	// always allowed.
	Allow []netip.Prefix
	// Header is added to each request. The headers that the handler sets itself replace those
	// of the same name.
	Header http.Header
}

// HTTP returns a handler that posts each job's payload to a service, with headers for
// the job's id, type, attempt and token. The body of the answer becomes the result, in
// the same way as the stdout of Command.
//
// A status of 2xx completes the job. The statuses 408, 425, 429 and 5xx, and a missing
// answer, fail the attempt; the handler then honours Retry-After, up to a day. Any other
// status makes the job dead; this includes redirects, which the handler does not follow.
//
// The handler refuses addresses that are private, link-local (such as the services of
// clouds that issue credentials), shared or reserved, unless Allow contains them. It
// checks the address that it dials, so a name that changes its address between check and
// use gains nothing. It ignores proxies of the environment, because they would bypass
// this check.
func HTTP(target string, cfg HTTPConfig) (worker.HandlerFunc, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("URL of a service: %w", err)
	}
	if (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" {
		return nil, fmt.Errorf("URL of a service %q: must begin with http:// or https://", target)
	}
	if cfg.Timeout < 0 || cfg.MaxAnswer < 0 {
		return nil, fmt.Errorf("service %s: Timeout %v and MaxAnswer %d must not be negative", target, cfg.Timeout, cfg.MaxAnswer)
	}
	cfg.Timeout = cmp.Or(cfg.Timeout, DefaultHTTPTimeout)
	cfg.MaxAnswer = min(cmp.Or(cfg.MaxAnswer, DefaultHTTPAnswer), math.MaxInt64-1) // one byte more is read
	s := &service{url: target, cfg: cfg, client: newServiceClient(cfg)}
	return s.do, nil
}

type service struct {
	url    string
	cfg    HTTPConfig
	client *http.Client
}

func newServiceClient(cfg HTTPConfig) *http.Client {
	dialer := &net.Dialer{Timeout: 10 * time.Second, Control: func(_, address string, _ syscall.RawConn) error {
		return checkDialed(address, cfg.Allow)
	}}
	return &http.Client{
		Transport: &http.Transport{
			DialContext:         dialer.DialContext,
			ForceAttemptHTTP2:   true,
			TLSHandshakeTimeout: 10 * time.Second,
			MaxIdleConnsPerHost: 16,
			IdleConnTimeout:     10 * time.Second,
		},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// reserved lists networks that no public service has and that package netip does not
// classify. The last two embed IPv4 addresses in IPv6 addresses.
var reserved = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"),
	netip.MustParsePrefix("198.18.0.0/15"), netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("fec0::/10"),
	netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"), netip.MustParsePrefix("2002::/16"),
}

// errRefusedAddress is reported unchanged; it is not wrapped in a *net.OpError.
var errRefusedAddress = errors.New("is not public; allow it with --http-allow")

// checkDialed returns an error if a connection to address is not allowed.
func checkDialed(address string, allow []netip.Prefix) error {
	to, err := netip.ParseAddrPort(address)
	if err != nil {
		return fmt.Errorf("address %q: %w", address, err)
	}
	ip := to.Addr().Unmap().WithZone("")
	has := func(p netip.Prefix) bool { return p.Contains(ip) }
	switch {
	case ip.IsLoopback(), slices.ContainsFunc(allow, has):
		return nil
	case ip.IsPrivate(), ip.IsUnspecified(), !ip.IsGlobalUnicast(), slices.ContainsFunc(reserved, has):
		return fmt.Errorf("address %s %w", ip, errRefusedAddress)
	}
	return nil
}

func (s *service) do(ctx context.Context, job worker.Job) (json.RawMessage, error) {
	limited, cancel := context.WithTimeoutCause(ctx, s.cfg.Timeout, errServiceSlow)
	defer cancel()
	req, err := s.request(limited, job)
	if err != nil {
		return nil, worker.Permanent(err)
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, endedOr(limited, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, s.cfg.MaxAnswer+1))
	if resp.StatusCode/100 != 2 {
		return nil, statusError(resp, body)
	}
	switch {
	case err != nil:
		return nil, endedOr(limited, fmt.Errorf("the service answered %s, but the connection broke in the body: %w", resp.Status, err))
	case int64(len(body)) > s.cfg.MaxAnswer:
		return nil, worker.Permanent(fmt.Errorf("the service's answer is larger than %d bytes; store large results elsewhere", s.cfg.MaxAnswer))
	}
	return commandResult(body), nil
}

var errServiceSlow = errors.New("the service did not answer in time")

// endedOr returns the reason why a request ended: the cause of ctx if it has ended, or
// else err.
func endedOr(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return fmt.Errorf("the request was cancelled: %w", cause)
	}
	return err
}

func (s *service) request(ctx context.Context, job worker.Job) (*http.Request, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url, bytes.NewReader(job.Payload))
	if err != nil {
		return nil, fmt.Errorf("make the request: %w", err)
	}
	if s.cfg.Header != nil {
		req.Header = s.cfg.Header.Clone()
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	if len(job.Payload) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("User-Agent", "osqueue-worker")
	req.Header.Set(HeaderJobID, url.PathEscape(job.ID))
	req.Header.Set(HeaderJobType, url.PathEscape(job.Type))
	req.Header.Set(HeaderAttempt, strconv.Itoa(job.Attempt))
	req.Header.Set(HeaderFence, strconv.FormatUint(job.Token, 10))
	if parent := job.Headers[v1.HeaderTraceparent]; v1.TraceID(parent) != "" {
		req.Header.Set(v1.HeaderTraceparent, parent)
	}
	return req, nil
}

// statusError returns the failure for a status that is not 2xx.
func statusError(resp *http.Response, body []byte) error {
	err := fmt.Errorf("the service answered %s", resp.Status)
	if text := strings.TrimSpace(string(body[:min(len(body), httpErrorBody)])); text != "" {
		err = fmt.Errorf("%w: %s", err, text)
	}
	if !worthRepeating(resp.StatusCode) {
		return worker.Permanent(err)
	}
	if after, ok := retryAfter(resp.Header.Get("Retry-After"), time.Now()); ok {
		return worker.RetryAfter(after, err)
	}
	return err
}

func worthRepeating(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status >= 500
}

// retryAfter parses the header Retry-After: seconds or a date.
func retryAfter(text string, now time.Time) (time.Duration, bool) {
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= 0 {
		return time.Duration(min(seconds, int64(maxRetryAfter/time.Second))) * time.Second, true
	}
	if at, err := http.ParseTime(text); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter), true
	}
	return 0, false
}
