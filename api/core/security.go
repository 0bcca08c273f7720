package core

import (
	"context"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
)

var (
	unauthorized = Kind{Status: http.StatusUnauthorized, Tag: v1.TagUnauthorized, Title: "A valid token is needed"}
	Forbidden    = Kind{Status: http.StatusForbidden, Tag: v1.TagForbidden, Title: "The identity of the caller does not allow this"}
	unsure       = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The credential cannot be checked now", Retry: time.Second}
	rateLimited  = Kind{Status: http.StatusTooManyRequests, Tag: v1.TagRateLimited, Title: "The caller makes too many requests", Retry: time.Second}
)

var (
	errNoToken = Fail(unauthorized, "this request needs a token: set OSQUEUE_TOKEN, or send Authorization: Bearer osq_…")
	ErrRevoked = Fail(unauthorized, "the token was revoked or expired while the request waited")
	// ErrReplaced ends requests that wait with an identity whose rules have changed. A repetition has the rights of the new rules.
	ErrReplaced = Fail(unsure, "the rules that give roles to JWTs and client certificates have changed; send the request again")
)

// Credential is the token or the certificate of a request, and its principal.
type Credential struct {
	P    *auth.Principal // nil: none
	Text string          // of the token, for the leader
	Cert string          // the certificate, for the leader
	Err  error           // why a given token does not count
	Seen uint64          // rules of identities, see Identities
}

type CredentialKey struct{}

// access is the state of the checks of one server.
type access struct {
	SecurityConfig
	warned *rate.Limiter

	Known  knownTokens
	Asking chan struct{} // has an item for each question to the leader about a token

	rules    atomic.Uint64 // how often the rules of identities have changed
	watching sync.Once     // starts watchTokens
	Watched  sync.Map      // of *watch

	mu       sync.Mutex
	limiters map[string]*rate.Limiter // by the id of the principal
}

// limitersMax bounds the remembered rates. Beyond it all are forgotten: each principal may then send
// its burst once more.
const limitersMax = 16_384

func newAccess(cfg SecurityConfig) *access {
	if cfg.Programs == nil {
		cfg.Programs = DefaultPrograms()
	}
	return &access{SecurityConfig: cfg, warned: rate.NewLimiter(1, 10), limiters: make(map[string]*rate.Limiter), Asking: make(chan struct{}, AsksAtOnce)}
}

func (a *access) Off() bool { return a.Mode == "" || a.Mode == SecurityOff }

// stillValid returns an error if a principal that was valid has ended.
func (s *Core) stillValid(p *auth.Principal) error {
	now := time.Now().UnixMilli()
	if p.ExpiresAt != 0 && p.ExpiresAt <= now {
		return ErrRevoked
	}
	if p.Kind != auth.KindToken {
		return nil
	}
	if t := s.Node.Token(p.ID); t == nil || t.ExpiresMs != 0 && t.ExpiresMs <= now {
		return ErrRevoked
	}
	return nil
}

// watch is a request that waits with a credential.
type watch struct {
	p      *auth.Principal
	cancel context.CancelCauseFunc
}

// byRules reports whether the rights of a principal come from rules, and from no token.
func byRules(p *auth.Principal) bool { return p.Kind == auth.KindJWT || p.Kind == auth.KindCertificate }

// Identities returns the number of the rules that Bearer and Certificate apply from now on, for Credential.Seen.
func (s *Core) Identities() uint64 { return s.Access.rules.Load() }

// EndIdentities ends the requests and streams whose rights come from rules. It is called after Bearer and Certificate apply
// others.
func (s *Core) EndIdentities() {
	s.Access.rules.Add(1)
	s.Access.Watched.Range(func(key, _ any) bool {
		if w := key.(*watch); byRules(w.p) {
			w.cancel(ErrReplaced)
		}
		return true
	})
}

// WhileValid returns a context that ends, with the cause ErrRevoked or ErrReplaced, when the credential does, if
// the server enforces tokens and cred has a valid one.
func (s *Core) WhileValid(ctx context.Context, cred *Credential) (context.Context, context.CancelFunc) {
	if s.Access.Mode != SecurityOn || cred == nil || cred.P == nil || cred.P.Kind == auth.KindLocal {
		return ctx, func() {}
	}
	s.Access.watching.Do(func() { go s.watchTokens() })
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cred.P, cancel}
	s.Access.Watched.Store(w, nil)
	switch { // it ended before it was watched
	case s.stillValid(cred.P) != nil:
		cancel(ErrRevoked)
	case byRules(cred.P) && cred.Seen != s.Access.rules.Load():
		cancel(ErrReplaced)
	}
	expiry := func() bool { return true }
	if at := cred.P.ExpiresAt; at != 0 {
		expiry = time.AfterFunc(time.Until(time.UnixMilli(at)), func() { cancel(ErrRevoked) }).Stop
	}
	return ctx, func() {
		expiry()
		s.Access.Watched.Delete(w)
		cancel(nil)
	}
}

// watchTokens ends the requests that wait with a token when the state loses it, until the server
// closes.
func (s *Core) watchTokens() {
	for {
		ended := s.Node.TokensEnded()
		s.Access.Watched.Range(func(key, _ any) bool {
			if w := key.(*watch); s.stillValid(w.p) != nil {
				w.cancel(ErrRevoked)
			}
			return true
		})
		select {
		case <-ended:
		case <-s.Closing.Done():
			return
		}
	}
}

// authorize checks that the caller may use the route. In the mode log it only warns.
func (s *Core) authorize(c *Call) error {
	if s.Access.Off() {
		return s.authorizeLegacy(c)
	}
	cred := c.Peer.Credential()
	c.Principal = cred.P
	if cred.P != nil && cred.P.Kind == auth.KindLegacy {
		return s.checkLegacy(c)
	}
	err := s.mayUse(c, cred)
	if err == nil {
		return nil
	}
	if s.Access.Mode == SecurityLog {
		s.wouldRefuse(c, err)
		return nil
	}
	if FailureOf(err).Status == http.StatusUnauthorized {
		c.Challenge = true
	}
	return err
}

func (s *Core) mayUse(c *Call, cred *Credential) error {
	if c.Route.Right&auth.Public != 0 {
		return nil
	}
	switch {
	case errors.Is(cred.Err, auth.ErrDenied):
		return Fail(Forbidden, "%v", cred.Err)
	case errors.Is(cred.Err, ErrUnsure):
		return Fail(NoLeader, "%v", cred.Err)
	case errors.Is(cred.Err, auth.ErrUnsure):
		return Fail(unsure, "%v", cred.Err)
	case cred.Err != nil:
		return Fail(unauthorized, "%v", cred.Err)
	case cred.P == nil:
		return errNoToken
	case !cred.P.Has(c.Route.Right):
		return Fail(Forbidden, "%s %s needs %s; %s has the role %s", c.Route.Method, c.Route.Path, c.Route.Right.Needed(), cred.P, cred.P.Role)
	case cred.P.Kind == auth.KindLocal:
		return s.localOnly(c)
	}
	// A stream keeps the credential that it was opened with.
	if err := s.stillValid(cred.P); err != nil {
		return err
	}
	if !s.Access.withinRate(cred.P) {
		return Fail(rateLimited, "%s has used up its rate; send fewer requests per second", cred.P)
	}
	if cred.P.Kind == auth.KindToken {
		s.touch(c, cred.P.ID)
	}
	return nil
}

// localOnly refuses requests of the admin socket that another node would have to answer, unless
// the nodes trust each other.
func (s *Core) localOnly(c *Call) error {
	leader, self := s.Node.Leader()
	if c.Route.At == AnyNode || self || leader == "" || s.Config.NodesTrusted {
		return nil
	}
	return Fail(NotLeader, "this node is not the leader: use the admin socket of the leader, %s", leader)
}

// withinRate takes a permit of the principal's rate.
func (a *access) withinRate(p *auth.Principal) bool {
	if p.RateMilli == 0 {
		return true
	}
	a.mu.Lock()
	held := a.limiters[p.ID]
	if held == nil {
		if len(a.limiters) >= limitersMax {
			clear(a.limiters)
		}
		held = rate.NewLimiter(rate.Limit(float64(p.RateMilli)/1000), int(min(max(p.Burst, 1), 1<<30)))
		a.limiters[p.ID] = held
	}
	a.mu.Unlock()
	return held.Allow()
}

// touchEvery is the least time between two recorded uses of a token.
const touchEvery = time.Hour

// touch records, on the leader and about once an hour, that a token was used. The request waits
// for the commit; an error does not concern it.
func (s *Core) touch(c *Call, id string) {
	t := s.Node.Token(id)
	if t == nil || t.UsedMs != 0 && s.Node.Now()-t.UsedMs < touchEvery.Milliseconds() {
		return
	}
	if _, self := s.Node.Leader(); !self {
		return
	}
	ctx, cancel := context.WithTimeout(c.Context(), s.Config.Timeouts.Commit)
	defer cancel()
	if err := s.Gate.touch(ctx, id); err != nil {
		s.Log.Debug("cannot record the use of a token", "token", id, "reason", err)
	}
}

// wouldRefuse logs a request that the mode on would refuse, at most one a second.
func (s *Core) wouldRefuse(c *Call, err error) {
	if s.Access.warned.Allow() {
		s.Log.Warn("--security=on would refuse a request", "method", c.Method, "route", c.Route.Path, "client", c.Remote, "reason", err)
	}
}

// AnyRight are the rights of which each role has at least one.
const AnyRight = auth.Enqueue | auth.Work | auth.Follow | auth.Read | auth.Manage | auth.Admin | auth.Hooks

// InForce returns the mode of the checks.
func (a *access) InForce() string {
	if a.Off() {
		return SecurityOff
	}
	return a.Mode
}

// The legacy listener serves clients that know neither TLS nor tokens. All of them are one
// principal, auth.Legacy, which may use the routes of the legacy contracts only, in every mode
// of SecurityConfig. Package osqueue and package dtq in compat answer most of these routes by
// calls of this API, with the context of the request: so the calls have the principal too.

// authorizeLegacy is authorize of a server that asks for no credentials.
func (s *Core) authorizeLegacy(c *Call) error {
	cred, _ := c.Context().Value(CredentialKey{}).(*Credential)
	if cred == nil || cred.P == nil || cred.P.Kind != auth.KindLegacy {
		return nil
	}
	c.Principal = cred.P
	return s.checkLegacy(c)
}

// checkLegacy refuses the routes that are not for legacy clients.
func (s *Core) checkLegacy(c *Call) error {
	switch {
	case c.Route.Right&auth.Public != 0, c.Route.Legacy == ByLegacy:
		return nil
	case c.Route.Legacy == ByCompat && (c.Inner || !c.Legacy): // another node has checked its client
		return nil
	case c.Route.Method == http.MethodGet && c.Route.Path == ByID(v1.PathJobs): // also the paths of other methods, such as /v1/jobs/claim
		return c.NoSuchRoute()
	}
	return s.NotLegacy(c)
}

// NotLegacy refuses a request of a legacy client to other routes.
func (s *Core) NotLegacy(c *Call) error {
	where := ""
	if s.Config.Legacy != nil && c.Legacy {
		where = "; use the API at " + s.Config.Legacy.API
	}
	return Fail(Forbidden, "this address serves only the routes of legacy clients, and %s is not one of them%s", Shown(c.PathText()), where)
}
