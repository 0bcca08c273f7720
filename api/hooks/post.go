package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/client/webhook"
	"osqueue/fsm/outbox"
)

// The limits of one request.
const (
	requestTimeout = 10 * time.Second
	dialTimeout    = 5 * time.Second
	answerMax      = 64 << 10 // bytes of the answer and of its headers
)

// userAgent names the sender to receivers.
const userAgent = "osqueue-hooks"

// newClient returns the HTTP client of the deliveries. It speaks HTTP/1.1 only: on a connection of
// HTTP/2 a receiver can send frames without end, also after its answer, which take a processor.
func newClient(cfg *Config) *http.Client {
	t := &http.Transport{
		DialContext:            dialer(cfg.Allow, cfg.Resolver),
		TLSClientConfig:        &tls.Config{RootCAs: cfg.Roots, MinVersion: tls.VersionTLS12},
		TLSHandshakeTimeout:    dialTimeout,
		MaxIdleConnsPerHost:    senderConcurrency,
		MaxIdleConns:           2 * outbox.HooksMax,
		IdleConnTimeout:        30 * time.Second,
		MaxResponseHeaderBytes: answerMax,
		DisableCompression:     true,
	}
	return &http.Client{
		Transport: t, Timeout: cfg.Timeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

// CheckURL returns an error if a hook cannot have a URL.
func CheckURL(text string, plain bool) error {
	u, err := url.Parse(text)
	switch {
	case err != nil || u.Host == "" || u.Hostname() == "" || u.Opaque != "":
		return errors.New("is not a URL such as https://example.com/hook")
	case len(text) > outbox.URLMax:
		return fmt.Errorf("has %d bytes; at most %d are allowed", len(text), outbox.URLMax)
	case u.Scheme == "http" && !plain:
		return errors.New("has no TLS; use https://, or allow it (http, --http)")
	case u.Scheme != "https" && u.Scheme != "http":
		return errors.New("does not begin with https:// or http://")
	case u.User != nil:
		return errors.New("contains a user name or password, which receivers do not need: deliveries are signed")
	case u.Port() != "" && !isPort(u.Port()):
		return fmt.Errorf("has the port %s; must be from 1 to 65535", u.Port())
	case u.Fragment != "":
		return errors.New("has a fragment, which is not sent to receivers; remove it")
	}
	return nil
}

func isPort(text string) bool {
	n, err := strconv.ParseUint(text, 10, 16)
	return err == nil && n > 0
}

// Body returns the body of the deliveries of an event. It is the same each time.
func Body(e *outbox.Event) []byte {
	body, err := json.Marshal(EventOf(e))
	if err != nil {
		panic("hooks: " + err.Error()) // there is no value in it that JSON does not have
	}
	return body
}

// EventOf returns an event as receivers and the API have it.
func EventOf(e *outbox.Event) v1.HookEvent {
	kind := outbox.Kind(e.Kind)
	out := v1.HookEvent{
		ID: outbox.IDOf(e).String(), Type: kind.String(), Timestamp: time.UnixMilli(e.AtMs).UTC().Format("2006-01-02T15:04:05.000Z07:00"),
		Data: v1.HookEventData{Subject: e.Subject, JobID: e.JobId, Attempts: e.Attempts, Message: e.Text, Since: e.SinceMs, Actor: e.Actor},
	}
	switch kind {
	case outbox.BucketAway, outbox.BucketDamaged, outbox.WritesRefused,
		outbox.QueueStuck, outbox.QueueFailing, outbox.QueueDead, outbox.BucketLag:
		out.Data.State = "firing"
		if e.Resolved {
			out.Data.State = "resolved"
		}
	default:
	}
	if alert := (outbox.EventID{Term: e.AlertTerm, Index: e.AlertIndex, N: e.AlertN}); alert != (outbox.EventID{}) {
		out.Data.AlertID = alert.String()
	}
	return out
}

// post makes one delivery. It returns the status of the answer, 0 if there was none.
func (s *Sender) post(ctx context.Context, h *outbox.Hook, e *outbox.Event, now time.Time) (int, error) {
	if err := CheckURL(h.Url, h.Plain); err != nil {
		return 0, fmt.Errorf("the URL %w", err)
	}
	body := Body(e)
	signatures, err := s.sign(h, outbox.IDOf(e).String(), now, body)
	if err != nil {
		return 0, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, h.Url, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", userAgent)
	r.Header.Set(webhook.HeaderID, outbox.IDOf(e).String())
	r.Header.Set(webhook.HeaderTimestamp, strconv.FormatInt(now.Unix(), 10))
	r.Header.Set(webhook.HeaderSignature, signatures)
	answer, err := s.client.Do(r)
	if err != nil {
		return 0, plainError(err)
	}
	// An answer that is cut short leaves the connection unusable, and nothing else.
	_, _ = io.Copy(io.Discard, io.LimitReader(answer.Body, answerMax))
	_ = answer.Body.Close()
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return answer.StatusCode, fmt.Errorf("the receiver answered %s", strings.TrimSpace(http.StatusText(answer.StatusCode)+" "+strconv.Itoa(answer.StatusCode)))
	}
	return answer.StatusCode, nil
}

// plainError returns an error of a request without its URL, which may be secret.
func plainError(err error) error {
	if of, ok := errors.AsType[*url.Error](err); ok {
		if of.Timeout() {
			return errors.New("the receiver did not answer in time")
		}
		return of.Err
	}
	return err
}

// sign returns the value of the header with the signatures.
func (s *Sender) sign(h *outbox.Hook, id string, now time.Time, body []byte) (string, error) {
	key, err := s.cfg.Keys.Open(h.Name, h.Secret, h.KeyId)
	if err != nil {
		return "", err
	}
	out := webhook.Secret(key).Sign(id, now, body)
	if len(h.OldSecret) > 0 && now.UnixMilli() < h.OldUntilMs {
		old, err := s.cfg.Keys.Open(h.Name, h.OldSecret, h.OldKeyId)
		if err != nil {
			return "", err
		}
		out += " " + webhook.Secret(old).Sign(id, now, body)
	}
	return out, nil
}

// Roots returns the system's certificates and those in a PEM file; "" is no file.
func Roots(pem []byte) (*x509.CertPool, error) {
	if pem == nil {
		return nil, nil // nil means the system's
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool()
	}
	if !pool.AppendCertsFromPEM(pem) {
		return nil, errors.New("contains no certificate in PEM form")
	}
	return pool, nil
}
