package oidc

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"osqueue/internal/auth"
)

// The times and sizes of fetches.
const (
	RefreshEvery = 15 * time.Minute
	FetchPause   = 30 * time.Second
	FetchWait    = 3 * time.Second

	fetchTimeout = 5 * time.Second
	answerMax    = 1 << 20
	keysMax      = 100
	rsaBits      = 2048 // of the shortest RSA key that counts
)

// errUnknownKey means that no key of the provider has the id that a JWT names.
var errUnknownKey = errors.New("its signature is not by a key of the issuer")

// keys are the keys of the provider. They are those of go-oidc, behind a limit of fetches: the
// library asks for the keys whenever a JWT has no signature by one that it knows, and RoundTrip answers
// it. They are safe for concurrent use.
type keys struct {
	cfg    *Config
	client *http.Client
	set    *oidc.RemoteKeySet

	base context.Context // ends with close
	stop context.CancelFunc
	done sync.WaitGroup

	mu      sync.Mutex
	began   time.Time // the last fetch
	fetched time.Time // the last fetch that worked
	failure error     // of the last fetch; nil: it worked
}

func newKeys(cfg *Config) *keys {
	k := &keys{cfg: cfg, client: &http.Client{
		Timeout:       fetchTimeout,
		Transport:     &limited{cfg.Transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	k.base, k.stop = context.WithCancel(context.Background())
	k.set = oidc.NewRemoteKeySet(oidc.ClientContext(k.base, &http.Client{Transport: k}), cfg.Issuer)
	return k
}

// close ends the fetch that runs, and waits for it.
func (k *keys) close() {
	k.stop()
	k.done.Wait()
}

// checked are the keys for one JWT. The library keeps only the text of errors.
type checked struct {
	*keys
	err error
}

// VerifySignature implements oidc.KeySet.
func (c *checked) VerifySignature(ctx context.Context, jwt string) (payload []byte, err error) {
	payload, c.err = c.verify(ctx, jwt)
	return payload, c.err
}

// verify checks the signature of a JWT. If no known key fits, the issuer has no such key, or its keys
// could not be fetched.
func (k *keys) verify(ctx context.Context, jwt string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, FetchWait)
	defer cancel()
	payload, err := k.set.VerifySignature(ctx, jwt)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		return payload, nil
	case k.failure != nil:
		return nil, fmt.Errorf("%w: the keys of the issuer %s could not be fetched (%w)", auth.ErrUnsure, k.cfg.Issuer, k.failure)
	case ctx.Err() != nil:
		return nil, fmt.Errorf("%w: the issuer %s has not answered yet", auth.ErrUnsure, k.cfg.Issuer)
	}
	return nil, errUnknownKey
}

// ofNoKey is a JWT whose key id no key has. It makes the library ask for the keys.
const ofNoKey = "eyJhbGciOiJFUzI1NiIsImtpZCI6IlxuIn0.e30.AAAA"

// refreshIfOld starts a fetch if the keys are old.
func (k *keys) refreshIfOld() {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	if now.Sub(k.fetched) < RefreshEvery || now.Sub(k.began) < FetchPause || k.base.Err() != nil {
		return
	}
	k.done.Go(func() { _, _ = k.set.VerifySignature(k.base, ofNoKey) }) // RoundTrip reports errors
}

// errPause means that the keys were fetched a moment ago.
var errPause = fmt.Errorf("the last fetch began less than %v ago", FetchPause)

// RoundTrip implements http.RoundTripper for the library, which has one request at a time: it
// fetches the keys, unless the last fetch began less than FetchPause ago.
func (k *keys) RoundTrip(r *http.Request) (*http.Response, error) {
	k.mu.Lock()
	now := k.cfg.Now()
	paused := now.Sub(k.began) < FetchPause
	if !paused {
		k.began = now
	}
	k.mu.Unlock()
	if paused {
		return nil, errPause
	}
	ctx, cancel := context.WithTimeout(k.base, fetchTimeout)
	defer cancel()
	set, err := k.fetch(ctx)
	k.mu.Lock()
	if k.failure = err; err == nil {
		k.fetched = now
	}
	k.mu.Unlock()
	if err != nil && k.base.Err() == nil {
		k.cfg.Logger.Warn("the keys of the OIDC issuer could not be fetched; the previous ones stay", "issuer", k.cfg.Issuer, "error", err)
	}
	if err != nil {
		return nil, err
	}
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Request: r,
		Body: io.NopCloser(bytes.NewReader(set)),
	}, nil
}

// fetch asks the provider for its keys, and returns those for signatures as a JWK set.
func (k *keys) fetch(ctx context.Context) ([]byte, error) {
	provider, err := oidc.NewProvider(oidc.ClientContext(ctx, k.client), k.cfg.Issuer)
	if err != nil {
		return nil, err
	}
	var discovery struct {
		Keys string `json:"jwks_uri"`
	}
	if err := provider.Claims(&discovery); err != nil {
		return nil, fmt.Errorf("read its configuration: %w", err)
	}
	if err := checkURL(discovery.Keys); err != nil {
		return nil, fmt.Errorf("jwks_uri %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, discovery.Keys, nil)
	if err != nil {
		return nil, err
	}
	resp, err := k.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the keys at %s: status %s", discovery.Keys, resp.Status)
	}
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	return signingKeys(data)
}

// signingKeys returns a JWK set without the keys that are not public ones for signatures.
func signingKeys(data []byte) ([]byte, error) {
	var in struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &in); err != nil {
		return nil, fmt.Errorf("the keys cannot be read: %w", err)
	}
	if len(in.Keys) > keysMax {
		return nil, fmt.Errorf("there are %d keys; at most %d are allowed", len(in.Keys), keysMax)
	}
	var out jose.JSONWebKeySet
	for _, raw := range in.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && signs(&key) {
			out.Keys = append(out.Keys, key)
		}
	}
	if len(out.Keys) == 0 {
		return nil, errors.New("the issuer has no public key for signatures")
	}
	return json.Marshal(&out)
}

// signs reports whether a key is a public one for signatures.
func signs(key *jose.JSONWebKey) bool {
	if key.Use != "" && key.Use != "sig" || !key.Valid() {
		return false
	}
	switch public := key.Key.(type) {
	case *rsa.PublicKey:
		return public.N.BitLen() >= rsaBits
	case *ecdsa.PublicKey, ed25519.PublicKey:
		return true
	}
	return false
}

// limited bounds the answers of the provider.
type limited struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(r)
	if err == nil {
		resp.Body = http.MaxBytesReader(nil, resp.Body, answerMax)
	}
	return resp, err
}

// checkURL returns an error for a URL by which keys could be replaced on the way.
func checkURL(raw string) error {
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return errors.New("is not a URL: write https://HOST/PATH")
	}
	ip := net.ParseIP(u.Hostname())
	local := u.Hostname() == "localhost" || ip != nil && ip.IsLoopback()
	if u.Scheme == "https" || u.Scheme == "http" && local {
		return nil
	}
	return fmt.Errorf("%s: must begin with https://", u.Redacted())
}
