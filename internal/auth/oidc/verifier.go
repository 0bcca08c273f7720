package oidc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/hashicorp/go-hclog"

	"osqueue/internal/auth"
	"osqueue/internal/limit"
)

// Algorithms are the signature algorithms that a Config may allow.
var Algorithms = []string{"RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"}

// DefaultAlgorithms are the algorithms of a Config without any.
var DefaultAlgorithms = []string{"RS256", "ES256"}

const (
	// DefaultLeeway is the Leeway of a Config that names none.
	DefaultLeeway = time.Minute
	// LeewayMax is the largest Leeway.
	LeewayMax = 5 * time.Minute

	jwtMax      = 16 << 10 // bytes
	subjectMax  = 256      // bytes
	remembered  = 4096     // JWTs
	rememberFor = time.Minute
)

// Config configures a Verifier. Issuer, Audience and Roles are required.
type Config struct {
	Issuer     string // its URL, as it stands in the claim iss
	Audience   string // one of the values of the claim aud
	Algorithms []string
	Roles      *auth.Roles
	Leeway     time.Duration // tolerance between the clocks of the issuer and of this machine
	Transport  http.RoundTripper
	Logger     hclog.Logger
	Now        func() time.Time
}

// Verifier verifies JWTs. It is safe for concurrent use.
type Verifier struct {
	cfg  Config
	keys *keys

	mu   sync.Mutex
	seen map[[sha256.Size]byte]verdict
}

// verdict is the result for one JWT.
type verdict struct {
	p     *auth.Principal
	until time.Time
}

// Check returns why New would refuse the configuration, or nil. It asks no issuer.
func (cfg *Config) Check() error {
	if err := checkURL(cfg.Issuer); err != nil {
		return fmt.Errorf("issuer %w", err)
	}
	if cfg.Audience == "" {
		return errors.New("the audience is missing: without it JWTs for other programs would be accepted")
	}
	if !cfg.Roles.Uses(auth.KindJWT) {
		return fmt.Errorf("no rule of roles matches JWTs: add one with from: %s", auth.KindJWT)
	}
	if cfg.Leeway < 0 || cfg.Leeway > LeewayMax {
		return fmt.Errorf("leeway %s: must lie between 0s and %s", cfg.Leeway, LeewayMax)
	}
	for _, name := range cfg.Algorithms {
		if !slices.Contains(Algorithms, name) {
			return fmt.Errorf("algorithm %q: use some of %s", name, strings.Join(Algorithms, ", "))
		}
	}
	return nil
}

// New returns a Verifier, which fetches the keys of the issuer in the background. Close ends it.
func New(cfg Config) (*Verifier, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	v := newVerifier(cfg)
	v.keys = newKeys(&v.cfg)
	v.keys.refreshIfOld()
	return v, nil
}

func newVerifier(cfg Config) *Verifier {
	cfg = limit.Defaults(cfg, Config{
		Algorithms: DefaultAlgorithms, Leeway: DefaultLeeway, Logger: hclog.NewNullLogger(), Transport: http.DefaultTransport, Now: time.Now,
	})
	return &Verifier{cfg: cfg, seen: make(map[[sha256.Size]byte]verdict)}
}

// With returns a Verifier in place of v. If the issuer is the same it has the keys of v, which remain while the issuer is
// away; otherwise v is closed.
func (v *Verifier) With(cfg Config) (*Verifier, error) {
	if err := cfg.Check(); err != nil {
		return nil, err
	}
	if cfg.Issuer != v.cfg.Issuer {
		v.Close()
		return New(cfg)
	}
	next := newVerifier(cfg)
	next.keys = v.keys
	return next, nil
}

// Close ends the fetch that runs, if any.
func (v *Verifier) Close() { v.keys.close() }

// Principal verifies a JWT. Its errors wrap auth.ErrToken, auth.ErrDenied if the JWT is valid
// and no rule gives it a role, and auth.ErrUnsure if no key is known for it and the issuer is away.
func (v *Verifier) Principal(ctx context.Context, jwt string) (*auth.Principal, error) {
	if len(jwt) > jwtMax {
		return nil, fmt.Errorf("%w: it has %d bytes; a JWT has at most %d here", auth.ErrToken, len(jwt), jwtMax)
	}
	v.keys.refreshIfOld()
	sum, now := sha256.Sum256([]byte(jwt)), v.cfg.Now()
	if p := v.recall(sum, now); p != nil {
		return p, nil
	}
	if err := checkClaims(jwt); err != nil {
		return nil, fmt.Errorf("%w: JWT: %s", auth.ErrToken, reason(err))
	}
	keys := &checked{keys: v.keys}
	token, err := oidc.NewVerifier(v.cfg.Issuer, keys, &oidc.Config{
		ClientID: v.cfg.Audience, SupportedSigningAlgs: v.cfg.Algorithms, SkipExpiryCheck: true, // principal checks the times
	}).Verify(ctx, jwt)
	if errors.Is(keys.err, auth.ErrUnsure) {
		return nil, keys.err
	}
	if err != nil {
		return nil, fmt.Errorf("%w: JWT: %s", auth.ErrToken, reason(err))
	}
	p, err := v.principal(token, now)
	if err != nil {
		return nil, err
	}
	v.remember(sum, verdict{p, now.Add(rememberFor)}, now)
	return p, nil
}

// reason shortens an error of the library, which quotes parts of the JWT.
func reason(err error) string {
	text := strings.TrimPrefix(err.Error(), "oidc: ")
	text = strings.TrimPrefix(text, "failed to verify signature: ")
	switch {
	case strings.HasPrefix(text, "malformed jwt"):
		return "it is malformed, or its algorithm is not allowed"
	case strings.HasPrefix(text, "failed to unmarshal claims"):
		return "its claims are malformed"
	}
	return text[:min(len(text), 200)]
}

// principal checks the times of a JWT whose signature, issuer and audience are right, and
// gives it a role.
func (v *Verifier) principal(token *oidc.IDToken, now time.Time) (*auth.Principal, error) {
	claims := make(map[string]any)
	if err := token.Claims(&claims); err != nil {
		return nil, fmt.Errorf("%w: JWT: its claims are malformed", auth.ErrToken)
	}
	var times struct {
		NotBefore *json.Number `json:"nbf"`
	}
	if err := token.Claims(&times); err != nil {
		return nil, fmt.Errorf("%w: JWT: nbf must be a number", auth.ErrToken)
	}
	leeway := v.cfg.Leeway
	switch {
	case token.Subject == "" || len(token.Subject) > subjectMax:
		return nil, fmt.Errorf("%w: JWT: sub must have 1 to %d bytes", auth.ErrToken, subjectMax)
	case token.Expiry.Unix() <= 0:
		return nil, fmt.Errorf("%w: JWT: exp is missing", auth.ErrToken)
	case !now.Before(token.Expiry.Add(leeway)):
		return nil, fmt.Errorf("%w: JWT: it has expired at %s", auth.ErrToken, token.Expiry.UTC().Format(time.RFC3339))
	case token.IssuedAt.After(now.Add(leeway)):
		return nil, fmt.Errorf("%w: JWT: it was issued in the future; compare the clocks", auth.ErrToken)
	}
	if times.NotBefore != nil {
		seconds, err := times.NotBefore.Float64()
		if err != nil || float64(now.Add(leeway).Unix()) < seconds {
			return nil, fmt.Errorf("%w: JWT: it is not valid yet (nbf)", auth.ErrToken)
		}
	}
	p := v.cfg.Roles.Principal(auth.KindJWT, v.cfg.Issuer, token.Subject, func(name string) []string { return valuesOf(claims, name) })
	if p == nil {
		return nil, fmt.Errorf("%w: no rule of --roles-file gives a role to the JWT of %q", auth.ErrDenied, token.Subject)
	}
	p.ExpiresAt = token.Expiry.Add(leeway).UnixMilli()
	return p, nil
}

// valuesOf returns the values of a claim as texts. Dots lead into objects, if no claim has the
// whole name.
func valuesOf(claims map[string]any, name string) []string {
	value, found := claims[name]
	for rest := name; !found; {
		head, tail, more := strings.Cut(rest, ".")
		inner, isObject := claims[head].(map[string]any)
		if !more || !isObject {
			return nil
		}
		claims, rest = inner, tail
		value, found = claims[rest]
	}
	switch v := value.(type) {
	case []any:
		var all []string
		for _, one := range v {
			if text, ok := textOf(one); ok {
				all = append(all, text)
			}
		}
		return all
	default:
		if text, ok := textOf(v); ok {
			return []string{text}
		}
		return nil
	}
}

func textOf(value any) (string, bool) {
	switch v := value.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// recall returns the remembered principal of a JWT, or nil.
func (v *Verifier) recall(sum [sha256.Size]byte, now time.Time) *auth.Principal {
	v.mu.Lock()
	defer v.mu.Unlock()
	known, ok := v.seen[sum]
	if !ok || !now.Before(known.until) || now.UnixMilli() >= known.p.ExpiresAt {
		delete(v.seen, sum)
		return nil
	}
	return known.p
}

// remember keeps a result. If there are too many it forgets those that have ended, or all.
func (v *Verifier) remember(sum [sha256.Size]byte, known verdict, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.seen) >= remembered {
		for other, old := range v.seen {
			if !now.Before(old.until) {
				delete(v.seen, other)
			}
		}
		if len(v.seen) >= remembered {
			clear(v.seen)
		}
	}
	v.seen[sum] = known
}

// registered are the claims of RFC 7519 that decide whether a JWT is valid. All but the texts are numbers.
var (
	registered = []string{"exp", "nbf", "iat", "iss", "aud", "sub"}
	numbers    = registered[:3]
)

// checkClaims returns an error if the claims of a JWT can be read in two ways: a name that occurs twice, a
// registered name in other letters, which package json takes for the registered one, or a time that is no number. A
// provider that lets users add claims would let them replace these.
func checkClaims(jwt string) error {
	parts := strings.Split(jwt, ".")
	if len(parts) != 3 {
		return errors.New("it is malformed")
	}
	claims, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return errors.New("it is malformed")
	}
	d := jsontext.NewDecoder(bytes.NewReader(claims)) // which refuses a name that occurs twice
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return errors.New("its claims are no JSON object")
	}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("its claims are not valid: %w", err)
		}
		name := t.String()
		value, err := d.ReadValue()
		if err != nil {
			return fmt.Errorf("its claims are not valid: %w", err)
		}
		i := slices.IndexFunc(registered, func(one string) bool { return strings.EqualFold(one, name) })
		switch {
		case i >= 0 && registered[i] != name:
			return fmt.Errorf("the claim %q would be taken for %s", name, registered[i])
		case slices.Contains(numbers, name) && value.Kind() != '0':
			return fmt.Errorf("%s must be a number", name)
		}
	}
	return nil
}
