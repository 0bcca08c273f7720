package oidc_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"go.uber.org/goleak"

	"osqueue/internal/auth"
	"osqueue/internal/auth/oidc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const rules = `
- from: oidc
  match: {groups: queue-admins}
  role: admin
- from: oidc
  match: {repository: acme/*, ref: refs/heads/main}
  role: producer
  types: [ci.*]
  rate: 2.5
- from: oidc
  match: {realm_access.roles: reader}
  role: reader
- from: cert
  match: {cn: "*"}
  role: admin
`

// provider is an OpenID Connect provider in this process.
type provider struct {
	t       *testing.T
	server  *httptest.Server
	fetches atomic.Int64
	hang    chan struct{} // not nil: requests wait for it

	mu   sync.Mutex
	keys []jose.JSONWebKey // private ones
	set  []byte            // not nil: the answer to requests for keys
	away bool
	uri  string // jwks_uri; "": its own
}

func newProvider(t *testing.T) *provider {
	p := &provider{t: t}
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(func() {
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	away, hang, uri, set := p.away, p.hang, p.uri, p.set
	var public jose.JSONWebKeySet
	for _, k := range p.keys {
		public.Keys = append(public.Keys, k.Public())
	}
	p.mu.Unlock()
	if hang != nil {
		select {
		case <-hang:
		case <-r.Context().Done():
		}
	}
	switch {
	case away:
		http.Error(w, "away", http.StatusServiceUnavailable)
	case r.URL.Path == "/.well-known/openid-configuration":
		if uri == "" {
			uri = p.server.URL + "/keys"
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"issuer": p.server.URL, "jwks_uri": uri})
	default:
		p.fetches.Add(1)
		if set == nil {
			set, _ = json.Marshal(public)
		}
		_, _ = w.Write(set)
	}
}

func (p *provider) change(f func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f()
}

var (
	rsaKey   = sync.OnceValue(func() *rsa.PrivateKey { k, _ := rsa.GenerateKey(rand.Reader, 2048); return k })
	smallKey = sync.OnceValue(func() *rsa.PrivateKey {
		k, err := rsa.GenerateKey(rand.Reader, 1024) // weak on purpose
		if err != nil {
			return nil
		}
		return k
	})
)

func newES(t *testing.T) *ecdsa.PrivateKey {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	check(t, err)
	return k
}

func key(id string, private crypto.PrivateKey) jose.JSONWebKey {
	return jose.JSONWebKey{KeyID: id, Key: private, Use: "sig"}
}

// clock is a clock that a test moves.
type clock struct{ now atomic.Int64 }

func (c *clock) time() time.Time { return time.Unix(c.now.Load(), 0) }

func (c *clock) move(d time.Duration) { c.now.Add(int64(d / time.Second)) }

func newClock() *clock {
	c := new(clock)
	c.now.Store(1_800_000_000)
	return c
}

func verifier(t *testing.T, p *provider, c *clock, change ...func(*oidc.Config)) *oidc.Verifier {
	t.Helper()
	roles, err := auth.ParseRoles([]byte(rules))
	check(t, err)
	transport := &http.Transport{}
	cfg := oidc.Config{Issuer: p.server.URL, Audience: "osqueue", Roles: roles, Now: c.time, Transport: transport}
	for _, f := range change {
		f(&cfg)
	}
	v, err := oidc.New(cfg)
	check(t, err)
	t.Cleanup(func() { v.Close(); transport.CloseIdleConnections() })
	return v
}

// claims returns the claims of a valid JWT of an administrator, with changes.
func (p *provider) claims(c *clock, change map[string]any) map[string]any {
	all := map[string]any{
		"iss": p.server.URL, "aud": []string{"other", "osqueue"}, "sub": "ada", "groups": []string{"dev", "queue-admins"},
		"iat": c.now.Load(), "exp": c.now.Load() + 600,
	}
	maps.Copy(all, change)
	maps.DeleteFunc(all, func(_ string, v any) bool { return v == nil })
	return all
}

func sign(t *testing.T, alg jose.SignatureAlgorithm, k any, claims any) string {
	t.Helper()
	payload, err := json.Marshal(claims)
	check(t, err)
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: alg, Key: k}, nil)
	check(t, err)
	jws, err := signer.Sign(payload)
	check(t, err)
	text, err := jws.CompactSerialize()
	check(t, err)
	return text
}

func raw(header, claims any) string {
	h, _ := json.Marshal(header)
	c, _ := json.Marshal(claims)
	return base64.RawURLEncoding.EncodeToString(h) + "." + base64.RawURLEncoding.EncodeToString(c) + "."
}

func TestRolesOfJWTs(t *testing.T) {
	p, c := newProvider(t), newClock()
	es := newES(t)
	p.keys = []jose.JSONWebKey{key("r", rsaKey()), key("e", es)}
	v := verifier(t, p, c)
	for name, r := range map[string]struct {
		change map[string]any
		want   string
		id     string
	}{
		"a group":                 {nil, "admin", "oidc:ada"},
		"two claims":              {map[string]any{"groups": nil, "repository": "acme/web", "ref": "refs/heads/main", "sub": "repo:acme/web"}, "producer", "oidc:repo:acme/web"},
		"one of two claims":       {map[string]any{"groups": nil, "repository": "acme/web", "ref": "refs/heads/x"}, "", ""},
		"a pattern stops at /":    {map[string]any{"groups": nil, "repository": "acme/web/x", "ref": "refs/heads/main"}, "", ""},
		"a claim inside":          {map[string]any{"groups": nil, "realm_access": map[string]any{"roles": []string{"reader"}}}, "reader", "oidc:ada"},
		"a group of another type": {map[string]any{"groups": map[string]any{"queue-admins": true}}, "", ""},
		"one audience":            {map[string]any{"aud": "osqueue"}, "admin", "oidc:ada"},
		"just expired":            {map[string]any{"exp": c.now.Load() - 59}, "admin", "oidc:ada"},
		"a little early":          {map[string]any{"nbf": c.now.Load() + 59, "iat": c.now.Load() + 59}, "admin", "oidc:ada"},
	} {
		for _, jwt := range []string{
			sign(t, jose.RS256, key("r", rsaKey()), p.claims(c, r.change)), sign(t, jose.ES256, key("e", es), p.claims(c, r.change)),
		} {
			for range 2 { // the second is remembered
				got, err := v.Principal(t.Context(), jwt)
				if r.want == "" {
					if !errors.Is(err, auth.ErrDenied) {
						t.Errorf("%s: %+v, %v", name, got, err)
					}
					continue
				}
				if err != nil || got.Role.String() != r.want || got.ID != r.id || got.Kind != auth.KindJWT || got.Owner == 0 || got.ExpiresAt == 0 {
					t.Errorf("%s: %+v, %v", name, got, err)
				}
			}
		}
	}
	got, err := v.Principal(t.Context(), sign(t, jose.ES256, key("e", es), p.claims(c, map[string]any{"groups": nil, "repository": "acme/web", "ref": "refs/heads/main"})))
	if err != nil || got.RateMilli != 2500 || len(got.Types) != 1 || got.Programs {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestForgedJWTs(t *testing.T) {
	p, c := newProvider(t), newClock()
	es, other := newES(t), newES(t)
	p.keys = []jose.JSONWebKey{key("r", rsaKey()), key("e", es), {KeyID: "enc", Key: newES(t), Use: "enc"}}
	if small := smallKey(); small != nil {
		p.keys = append(p.keys, key("small", small))
	}
	v := verifier(t, p, c)
	good := p.claims(c, nil)
	public, err := x509.MarshalPKIXPublicKey(&rsaKey().PublicKey)
	check(t, err)
	valid := sign(t, jose.ES256, key("e", es), good)
	parts := strings.Split(valid, ".")
	with := func(change map[string]any) string { return sign(t, jose.ES256, key("e", es), p.claims(c, change)) }
	secret, _ := jose.NewSigner(jose.SigningKey{Algorithm: jose.HS256, Key: jose.JSONWebKey{KeyID: "r", Key: public}}, nil)
	text, _ := json.Marshal(good)
	confused, _ := secret.Sign(text)
	confusion, _ := confused.CompactSerialize()
	embedded, _ := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: other}, &jose.SignerOptions{EmbedJWK: true})
	own, _ := embedded.Sign(text)
	ownKey, _ := own.CompactSerialize()
	doubled := func(claim string) string {
		return sign(t, jose.ES256, key("e", es), json.RawMessage("{"+claim+","+string(text[1:])))
	}
	for name, jwt := range map[string]string{
		"alg none":                 raw(map[string]any{"alg": "none", "kid": "e"}, good),
		"alg None":                 raw(map[string]any{"alg": "None"}, good),
		"no alg":                   raw(map[string]any{"kid": "e"}, good),
		"HS256 with a public key":  confusion,
		"a key in the header":      ownKey,
		"a stranger's key":         sign(t, jose.ES256, key("e", other), good),
		"an unknown key":           sign(t, jose.ES256, key("x", es), good),
		"another kind of key":      sign(t, jose.ES256, key("r", es), good),
		"an algorithm not allowed": sign(t, jose.RS512, key("r", rsaKey()), good),
		"a key for encryption":     sign(t, jose.ES256, jose.JSONWebKey{KeyID: "enc", Key: p.keys[2].Key}, good),
		"the wrong audience":       with(map[string]any{"aud": "osqueue2"}),
		"no audience":              with(map[string]any{"aud": nil}),
		"the wrong issuer":         with(map[string]any{"iss": "https://evil.example"}),
		"an issuer with a slash":   with(map[string]any{"iss": p.server.URL + "/"}),
		"no issuer":                with(map[string]any{"iss": nil}),
		"expired":                  with(map[string]any{"exp": c.now.Load() - 60}),
		"without an end":           with(map[string]any{"exp": nil}),
		"exp as a text":            with(map[string]any{"exp": "never"}),
		"exp as a text of digits":  with(map[string]any{"exp": "9999999999"}),
		"exp in other letters":     with(map[string]any{"EXP": c.now.Load() + 600}),
		"exp twice":                doubled(`"exp":99999999999`),
		"groups twice":             doubled(`"groups":["queue-admins"]`),
		"a name inside twice":      doubled(`"realm_access":{"roles":["x"],"roles":["reader"]}`),
		"not valid yet":            with(map[string]any{"nbf": c.now.Load() + 61}),
		"of the future":            with(map[string]any{"iat": c.now.Load() + 61}),
		"no subject":               with(map[string]any{"sub": ""}),
		"a long subject":           with(map[string]any{"sub": strings.Repeat("x", 300)}),
		"a huge one":               with(map[string]any{"x": strings.Repeat("x", 20_000)}),
		"no signature":             parts[0] + "." + parts[1] + ".",
		"other claims":             parts[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(`{"sub":"evil"}`)) + "." + parts[2],
		"another header":           base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"r"}`)) + "." + parts[1] + "." + parts[2],
		"an unknown critical part": base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"ES256","kid":"e","crit":["x"],"x":1}`)) + "." + parts[1] + "." + parts[2],
		"claims that are no JSON":  parts[0] + ".bm90IGpzb24." + parts[2],
		"two parts":                parts[0] + "." + parts[1],
		"six parts":                valid + "." + valid,
		"JSON":                     `{"payload":"e30","signatures":[]}`,
		"nothing":                  "",
		"dots":                     "..",
	} {
		got, err := v.Principal(t.Context(), jwt)
		if got != nil || !errors.Is(err, auth.ErrToken) {
			t.Errorf("%s: %+v, %v", name, got, err)
		} else if len(jwt) > 20 && strings.Contains(err.Error(), jwt[:20]) || len(err.Error()) > 400 {
			t.Errorf("%s: the error repeats the JWT: %v", name, err)
		}
	}
	if small := smallKey(); small != nil {
		if got, err := v.Principal(t.Context(), sign(t, jose.RS256, key("small", small), good)); err == nil {
			t.Errorf("a key of 1024 bits counts: %+v", got)
		}
	}
	if _, err := v.Principal(t.Context(), valid); err != nil {
		t.Errorf("the valid one: %v", err)
	}
	if n := p.fetches.Load(); n > 2 {
		t.Errorf("the provider was asked %d times", n)
	}
}

// Keys are replaced, the provider is asked rarely, and a removed key ends.
func TestRotatedKeys(t *testing.T) {
	p, c := newProvider(t), newClock()
	first, second := newES(t), newES(t)
	p.keys = []jose.JSONWebKey{key("1", first)}
	v := verifier(t, p, c)
	jwt := func(id string, k *ecdsa.PrivateKey, n int) string {
		return sign(t, jose.ES256, key(id, k), p.claims(c, map[string]any{"n": n, "exp": c.now.Load() + 100_000}))
	}
	if _, err := v.Principal(t.Context(), jwt("1", first, 0)); err != nil {
		t.Fatal(err)
	}
	p.change(func() { p.keys = []jose.JSONWebKey{key("2", second)} })
	for n := range 200 { // a flood of unknown key ids
		if _, err := v.Principal(t.Context(), jwt(fmt.Sprint("x", n), first, n)); err == nil {
			t.Fatal("an unknown key counts")
		}
	}
	if n := p.fetches.Load(); n != 1 {
		t.Errorf("the provider was asked %d times, want once", n)
	}
	c.move(oidc.FetchPause)
	if _, err := v.Principal(t.Context(), jwt("2", second, 1)); err != nil {
		t.Errorf("the new key: %v", err)
	}
	if _, err := v.Principal(t.Context(), jwt("1", first, 2)); err == nil {
		t.Error("the removed key counts still")
	}
	if n := p.fetches.Load(); n != 2 {
		t.Errorf("the provider was asked %d times, want twice", n)
	}
}

// While the provider is away, hangs, or answers nonsense, the previous keys count, and a request with
// an unknown key does not wait long.
func TestAProviderThatIsAway(t *testing.T) {
	p, c := newProvider(t), newClock()
	es := newES(t)
	p.keys = []jose.JSONWebKey{key("1", es)}
	good := sign(t, jose.ES256, key("1", es), p.claims(c, map[string]any{"exp": c.now.Load() + 100_000}))
	unknown := sign(t, jose.ES256, key("9", es), p.claims(c, map[string]any{"exp": c.now.Load() + 100_000}))
	hang := make(chan struct{})
	defer close(hang)
	for name, fault := range map[string]func(){
		"away":      func() { p.away = true },
		"nonsense":  func() { p.set = []byte("no JSON") },
		"no keys":   func() { p.set = []byte(`{"keys":[]}`) },
		"secrets":   func() { p.set = []byte(`{"keys":[{"kty":"oct","kid":"1","k":"AAAA"}]}`) },
		"endless":   func() { p.set = []byte(`{"keys":["` + strings.Repeat("x", 2<<20) + `"]}`) },
		"many keys": func() { p.set = []byte(`{"keys":[` + strings.Repeat(`{},`, 200) + `{}]}`) },
		"a bad URL": func() { p.uri = "http://keys.example.test/" },
		"hanging":   func() { p.hang = hang },
	} {
		p.change(func() { p.away, p.set, p.uri, p.hang = false, nil, "", nil })
		v := verifier(t, p, c)
		if _, err := v.Principal(t.Context(), good); err != nil {
			t.Errorf("%s, before: %v", name, err)
		}
		p.change(fault)
		c.move(oidc.FetchPause)
		if _, err := v.Principal(t.Context(), good); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		start := time.Now()
		if _, err := v.Principal(t.Context(), unknown); !errors.Is(err, auth.ErrUnsure) || errors.Is(err, auth.ErrToken) {
			t.Errorf("%s: %v", name, err)
		}
		if took := time.Since(start); took > 2*oidc.FetchWait {
			t.Errorf("%s: a request took %s", name, took)
		}
		c.move(2 * oidc.RefreshEvery)
		if _, err := v.Principal(t.Context(), good); err != nil {
			t.Errorf("%s, later: %v", name, err)
		}
		v.Close()
	}
	// Without keys no JWT counts, and none is called wrong.
	p.change(func() { p.away, p.set, p.uri, p.hang = true, nil, "", nil })
	if _, err := verifier(t, p, c).Principal(t.Context(), good); !errors.Is(err, auth.ErrUnsure) {
		t.Errorf("without keys: %v", err)
	}
}

// A verifier in place of another has its own rules at once, and the keys of the other one while the provider is away.
func TestRulesAreReplaced(t *testing.T) {
	p, c := newProvider(t), newClock()
	es := newES(t)
	p.keys = []jose.JSONWebKey{key("1", es)}
	jwt := sign(t, jose.ES256, key("1", es), p.claims(c, nil))
	v := verifier(t, p, c)
	before, err := v.Principal(t.Context(), jwt)
	check(t, err)
	p.change(func() { p.away = true })
	roles, err := auth.ParseRoles([]byte("- {from: oidc, match: {groups: dev}, role: reader}"))
	check(t, err)
	next, err := v.With(oidc.Config{Issuer: p.server.URL, Audience: "osqueue", Roles: roles, Now: c.time})
	check(t, err)
	if after, err := next.Principal(t.Context(), jwt); err != nil || after.Role == before.Role {
		t.Errorf("%+v, %v; before %+v", after, err, before)
	}
	if _, err := v.With(oidc.Config{Issuer: p.server.URL, Roles: roles}); err == nil {
		t.Error("a configuration without an audience is taken")
	}
}

func TestConfigRefuses(t *testing.T) {
	roles, err := auth.ParseRoles([]byte(rules))
	check(t, err)
	certOnly, err := auth.ParseRoles([]byte("- {from: cert, match: {cn: x}, role: reader}"))
	check(t, err)
	for name, change := range map[string]func(*oidc.Config){
		"plain HTTP":       func(c *oidc.Config) { c.Issuer = "http://idp.example.test" },
		"no URL":           func(c *oidc.Config) { c.Issuer = "idp" },
		"a password":       func(c *oidc.Config) { c.Issuer = "https://u:p@idp.example.test" },
		"no audience":      func(c *oidc.Config) { c.Audience = "" },
		"no rules":         func(c *oidc.Config) { c.Roles = certOnly },
		"HS256":            func(c *oidc.Config) { c.Algorithms = []string{"HS256"} },
		"none":             func(c *oidc.Config) { c.Algorithms = []string{"none"} },
		"a large leeway":   func(c *oidc.Config) { c.Leeway = time.Hour },
		"a negative one":   func(c *oidc.Config) { c.Leeway = -1 },
		"an empty issuer":  func(c *oidc.Config) { c.Issuer = "" },
		"nil rules at all": func(c *oidc.Config) { c.Roles = nil },
	} {
		cfg := oidc.Config{Issuer: "https://idp.example.test", Audience: "q", Roles: roles}
		change(&cfg)
		if v, err := oidc.New(cfg); err == nil {
			v.Close()
			t.Errorf("%s is accepted", name)
		}
	}
}

func FuzzPrincipal(f *testing.F) {
	c := newClock()
	roles, err := auth.ParseRoles([]byte(rules))
	if err != nil {
		f.Fatal(err)
	}
	v, err := oidc.New(oidc.Config{Issuer: "http://127.0.0.1:1", Audience: "q", Roles: roles, Now: c.time})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(v.Close)
	f.Add("eyJhbGciOiJub25lIn0.e30.")
	f.Add("a.b.c")
	f.Fuzz(func(t *testing.T, jwt string) {
		if p, err := v.Principal(t.Context(), jwt); p != nil || !errors.Is(err, auth.ErrToken) {
			t.Fatalf("%+v, %v", p, err)
		}
	})
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
