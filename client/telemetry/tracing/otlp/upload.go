package otlp

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

const (
	defaultEndpoint = "http://localhost:4318"
	tracesPath      = "/v1/traces"
	defaultTimeout  = 10 * time.Second

	attemptsMax = 5 // requests for one batch of spans
	pauseFirst  = 250 * time.Millisecond
	pauseLast   = 5 * time.Second
	answerMax   = 4 << 10 // bytes of an answer that are read
)

// uploader sends spans to a collector. It implements otlptrace.Client.
type uploader struct {
	url     string
	headers http.Header
	gzip    bool
	http    *http.Client
}

// newUploader reads the configuration from the environment.
func newUploader(env func(string) string) (*uploader, error) {
	get := func(name string) string {
		if v := env("OTEL_EXPORTER_OTLP_TRACES_" + name); v != "" {
			return v
		}
		return env("OTEL_EXPORTER_OTLP_" + name)
	}
	if p := get("PROTOCOL"); p != "" && p != "http/protobuf" {
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_PROTOCOL %q: must be http/protobuf", p)
	}
	u := &uploader{headers: http.Header{"Content-Type": {"application/x-protobuf"}}}
	timeout := defaultTimeout
	if text := get("TIMEOUT"); text != "" {
		ms, err := strconv.ParseInt(text, 10, 32)
		if err != nil || ms <= 0 {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_TIMEOUT %q: must be a positive number of milliseconds", text)
		}
		timeout = time.Duration(ms) * time.Millisecond
	}
	switch c := get("COMPRESSION"); c {
	case "", "none":
	case "gzip":
		u.gzip = true
		u.headers.Set("Content-Encoding", "gzip")
	default:
		return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_COMPRESSION %q: must be gzip or none", c)
	}
	config, err := tlsOf(get)
	if err != nil {
		return nil, err
	}
	u.http = &http.Client{Timeout: timeout, Transport: &http.Transport{
		Proxy: http.ProxyFromEnvironment, TLSClientConfig: config, MaxIdleConns: 2, IdleConnTimeout: time.Minute,
	}}
	return u, errors.Join(u.readEndpoint(env), u.readHeaders(get("HEADERS")))
}

func (u *uploader) readEndpoint(env func(string) string) error {
	if u.url = env("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"); u.url == "" {
		base := env("OTEL_EXPORTER_OTLP_ENDPOINT")
		if base == "" {
			base = defaultEndpoint
		}
		u.url = strings.TrimRight(base, "/") + tracesPath
	}
	parsed, err := url.Parse(u.url)
	if err != nil || parsed.Scheme != "http" && parsed.Scheme != "https" || parsed.Host == "" {
		return errors.New("OTEL_EXPORTER_OTLP_ENDPOINT: must be a URL such as http://collector:4318")
	}
	return nil
}

func (u *uploader) readHeaders(list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, found := strings.Cut(pair, "=")
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if name = strings.TrimSpace(name); !found || name == "" || err != nil {
			return errors.New("OTEL_EXPORTER_OTLP_HEADERS: write NAME=VALUE,… with values in percent encoding")
		}
		u.headers.Add(name, value)
	}
	return nil
}

// tlsOf returns the configuration of TLS, or nil for the default.
func tlsOf(get func(string) string) (*tls.Config, error) {
	ca, cert, key := get("CERTIFICATE"), get("CLIENT_CERTIFICATE"), get("CLIENT_KEY")
	if ca+cert+key == "" {
		return nil, nil
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if ca != "" {
		text, err := os.ReadFile(ca)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE: %w", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CERTIFICATE %s: contains no certificate in PEM form", ca)
		}
	}
	if cert != "" || key != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE and _CLIENT_KEY: %w", err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config, nil
}

// Start implements otlptrace.Client.
func (u *uploader) Start(context.Context) error { return nil }

// Stop implements otlptrace.Client.
func (u *uploader) Stop(context.Context) error {
	u.http.CloseIdleConnections()
	return nil
}

// UploadTraces implements otlptrace.Client.
func (u *uploader) UploadTraces(ctx context.Context, spans []*tracepb.ResourceSpans) error {
	body, err := proto.Marshal(&tracepb.TracesData{ResourceSpans: spans}) // as ExportTraceServiceRequest
	if err != nil {
		return fmt.Errorf("encode spans: %w", err)
	}
	return u.upload(ctx, body)
}

// upload sends encoded spans. It repeats a request that the collector could not take, as its answer
// allows, until ctx ends; a batch that arrives twice has the same spans. It does not read body after
// it has returned.
func (u *uploader) upload(ctx context.Context, body []byte) (err error) {
	if u.gzip {
		if body, err = compressed(body); err != nil {
			return err
		}
	}
	pause := pauseFirst
	for attempt := 1; ; attempt++ {
		after, err := u.send(ctx, body)
		if err == nil || after < 0 || attempt == attemptsMax {
			return err
		}
		wait := time.NewTimer(max(after, pause/2+rand.N(pause/2)))
		select {
		case <-ctx.Done():
			wait.Stop()
			return errors.Join(err, ctx.Err())
		case <-wait.C:
		}
		pause = min(2*pause, pauseLast)
	}
}

func compressed(body []byte) ([]byte, error) {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(body)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("compress spans: %w", err)
	}
	return out.Bytes(), nil
}

// send sends one request. After an error, after is the least pause before another attempt;
// below 0: none is useful.
func (u *uploader) send(ctx context.Context, body []byte) (after time.Duration, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.url, http.NoBody)
	if err != nil {
		return -1, err
	}
	req.Header = u.headers.Clone()
	var readers sync.WaitGroup // net/http may read a body after the answer, until it closes it
	defer readers.Wait()
	req.ContentLength = int64(len(body))
	req.GetBody = func() (io.ReadCloser, error) { return newReader(body, &readers), nil }
	req.Body, _ = req.GetBody()
	res, err := u.http.Do(req)
	if err != nil {
		return 0, fmt.Errorf("send spans: %w", err)
	}
	defer func() { _ = res.Body.Close() }()
	_, _ = io.Copy(io.Discard, io.LimitReader(res.Body, answerMax)) // so that the connection is used again
	switch res.StatusCode {
	case http.StatusOK, http.StatusAccepted, http.StatusNoContent:
		return 0, nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(res.Header.Get("Retry-After"), 10, 8)
		after = time.Duration(min(seconds, 30)) * time.Second
	default:
		after = -1
	}
	return after, fmt.Errorf("send spans: the collector %s answered %s", req.URL.Redacted(), res.Status)
}

// reader reads the body of a request and tells readers when it is closed.
type reader struct {
	bytes.Reader
	close func()
}

func newReader(body []byte, readers *sync.WaitGroup) *reader {
	readers.Add(1)
	r := &reader{close: sync.OnceFunc(readers.Done)}
	r.Reset(body)
	return r
}

// Close implements io.Closer.
func (r *reader) Close() error {
	r.close()
	return nil
}
