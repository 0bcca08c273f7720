package oidc

import (
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
	"os"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-jose/go-jose/v4"

	"osqueue/internal/auth"
	"osqueue/internal/durable"
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

// keys are the keys of the provider. They are safe for concurrent use.
type keys struct {
	cfg    *Config
	client *http.Client

	mu      sync.Mutex
	byID    map[string]jose.JSONWebKey
	began   time.Time     // the last fetch
	fetched time.Time     // the last fetch that worked
	failure error         // of the last fetch; nil: it worked
	busy    chan struct{} // closed at the end of the fetch that runs; nil: none
	stop    context.CancelFunc
	done    sync.WaitGroup
	ended   bool
}

func newKeys(cfg *Config) *keys {
	k := &keys{cfg: cfg, client: &http.Client{
		Timeout:       fetchTimeout,
		Transport:     &limited{cfg.Transport},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	k.load()
	return k
}

// close ends the fetch that runs, and waits for it.
func (k *keys) close() {
	k.mu.Lock()
	k.ended = true
	if k.stop != nil {
		k.stop()
	}
	k.mu.Unlock()
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

func (k *keys) verify(ctx context.Context, jwt string) ([]byte, error) {
	jws, err := jose.ParseSignedCompact(jwt, k.cfg.algorithms())
	if err != nil {
		return nil, errors.New("it is malformed, or its algorithm is not allowed")
	}
	if len(jws.Signatures) != 1 {
		return nil, errors.New("it must have one signature")
	}
	header := jws.Signatures[0].Header
	key, err := k.find(ctx, header.KeyID)
	if err != nil {
		return nil, err
	}
	if key.Algorithm != "" && key.Algorithm != header.Algorithm {
		return nil, fmt.Errorf("its algorithm is %.20q, and that of its key is %.20q", header.Algorithm, key.Algorithm)
	}
	payload, err := jws.Verify(key.Key)
	if err != nil {
		return nil, errors.New("its signature is wrong")
	}
	return payload, nil
}

// find returns the key with that id. If it is not known, the keys are fetched again, unless that
// was tried a moment ago.
func (k *keys) find(ctx context.Context, id string) (jose.JSONWebKey, error) {
	key, ok := k.known(id)
	if ok {
		return key, nil
	}
	if busy := k.refresh(); busy != nil {
		wait := time.NewTimer(FetchWait)
		defer wait.Stop()
		select {
		case <-busy:
		case <-wait.C:
		case <-ctx.Done():
			return key, ctx.Err()
		}
	}
	if key, ok = k.known(id); ok {
		return key, nil
	}
	return key, k.unknown()
}

// unknown returns the error about a key that is not known: the issuer has no such key, or its keys
// could not be fetched.
func (k *keys) unknown() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case k.failure != nil:
		return fmt.Errorf("%w: the keys of the issuer %s could not be fetched (%w)", auth.ErrUnsure, k.cfg.Issuer, k.failure)
	case k.busy != nil:
		return fmt.Errorf("%w: the issuer %s has not answered yet", auth.ErrUnsure, k.cfg.Issuer)
	}
	return errUnknownKey
}

// known returns a key by its id. A JWT without a key id counts if the provider has one key.
func (k *keys) known(id string) (key jose.JSONWebKey, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if id == "" && len(k.byID) == 1 {
		for _, key = range k.byID {
			return key, true
		}
	}
	key, ok = k.byID[id]
	return key, ok
}

// refreshIfOld starts a fetch if the keys are old.
func (k *keys) refreshIfOld() {
	k.mu.Lock()
	old := k.cfg.Now().Sub(k.fetched) >= RefreshEvery
	k.mu.Unlock()
	if old {
		k.refresh()
	}
}

// refresh starts a fetch, and returns the channel that closes at its end, or that of the fetch that
// runs. It returns nil if the last fetch began less than FetchPause ago.
func (k *keys) refresh() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	now := k.cfg.Now()
	switch {
	case k.busy != nil:
		return k.busy
	case k.ended, !k.began.IsZero() && now.Sub(k.began) < FetchPause:
		return nil
	}
	ctx, stop := context.WithTimeout(context.Background(), fetchTimeout)
	busy := make(chan struct{})
	k.began, k.busy, k.stop = now, busy, stop
	k.done.Go(func() {
		defer stop()
		set, err := k.fetch(ctx)
		k.mu.Lock()
		if k.failure = err; err == nil {
			k.byID, k.fetched = set, k.cfg.Now()
		}
		k.busy, k.stop = nil, nil
		k.mu.Unlock()
		close(busy)
		if err != nil {
			k.cfg.Logger.Warn("the keys of the OIDC issuer could not be fetched; the previous ones stay", "issuer", k.cfg.Issuer, "error", err)
		} else {
			k.save(set)
		}
	})
	return busy
}

// fetch asks the provider for its keys.
func (k *keys) fetch(ctx context.Context) (map[string]jose.JSONWebKey, error) {
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
	return parseKeys(data)
}

// parseKeys returns the public keys for signatures in a JWK set. Keys of other kinds are left
// out.
func parseKeys(data []byte) (map[string]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(data, &set); err != nil {
		return nil, fmt.Errorf("the keys cannot be read: %w", err)
	}
	if len(set.Keys) > keysMax {
		return nil, fmt.Errorf("there are %d keys; at most %d are allowed", len(set.Keys), keysMax)
	}
	byID := make(map[string]jose.JSONWebKey)
	for _, raw := range set.Keys {
		var key jose.JSONWebKey
		if key.UnmarshalJSON(raw) == nil && signs(&key) {
			byID[key.KeyID] = key
		}
	}
	if len(byID) == 0 {
		return nil, errors.New("the issuer has no public key for signatures")
	}
	return byID, nil
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

// load reads the keys of the cache file. A file that cannot be read counts as none.
func (k *keys) load() {
	if k.cfg.CacheFile == "" {
		return
	}
	data, err := os.ReadFile(k.cfg.CacheFile)
	if errors.Is(err, os.ErrNotExist) {
		return
	}
	var cached cacheFile
	if err == nil {
		err = json.Unmarshal(data, &cached)
	}
	if err == nil && cached.Issuer == k.cfg.Issuer {
		k.byID, err = parseKeys(cached.Set)
	}
	if err != nil {
		k.cfg.Logger.Warn("the cached keys of the OIDC issuer cannot be read; they are fetched again", "file", k.cfg.CacheFile, "error", err)
	}
}

// cacheFile is the content of the cache file.
type cacheFile struct {
	Issuer string          `json:"issuer"`
	Set    json.RawMessage `json:"set"`
}

// save writes the keys to the cache file.
func (k *keys) save(byID map[string]jose.JSONWebKey) {
	if k.cfg.CacheFile == "" {
		return
	}
	var set jose.JSONWebKeySet
	for _, key := range byID {
		set.Keys = append(set.Keys, key)
	}
	text, err := json.Marshal(&set)
	if err == nil {
		text, err = json.Marshal(cacheFile{Issuer: k.cfg.Issuer, Set: text})
	}
	if err == nil {
		err = durable.WriteFile(k.cfg.CacheFile, string(text))
	}
	if err != nil {
		k.cfg.Logger.Warn("the keys of the OIDC issuer could not be cached", "file", k.cfg.CacheFile, "error", err)
	}
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
