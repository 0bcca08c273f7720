package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth"
)

// The modes of SecurityConfig.
const (
	SecurityOff = "off" // no request needs a token
	SecurityLog = "log" // requests that would be refused are logged
	SecurityOn  = "on"  // requests need a token with the right for their route
)

// SecurityConfig limits the use of the API. The zero value is SecurityOff.
type SecurityConfig struct {
	Mode string
	// Programs are patterns of the types whose workers run programs from the payload; only
	// tokens with that right may enqueue them. Nil: DefaultPrograms.
	Programs []string
	// Bearer returns the principal of a bearer credential that is no token of the queue, such as
	// a JWT. Its errors wrap auth.ErrToken, auth.ErrDenied or auth.ErrUnsure. Nil refuses them.
	Bearer func(ctx context.Context, text string) (*auth.Principal, error)
	// Certificate maps the client certificate of a request to a principal, and to the value of the
	// header v1.HeaderCertificate that identifies it to the leader. Nil ignores certificates.
	Certificate func(r *http.Request) (p *auth.Principal, forLeader string, err error)
	// Audit, unless nil, receives writes and refusals. It must not block. admitted says that
	// AdmitChange allowed the change that the entry is about.
	Audit func(e AuditEntry, admitted bool)
	// AdmitChange, unless nil, is asked before each change. Its error refuses the change, because
	// Audit could not keep its entry. It may wait for a moment.
	AdmitChange func(ctx context.Context) error
	// AuditBytes is the size of the newest of these that GET /v1/audit shows; 0: it shows none.
	AuditBytes int64
}

// DefaultPrograms are the types that `osqueue run` and the examples use for programs.
func DefaultPrograms() []string { return []string{"command", "python"} }

var (
	unauthorized = kind{status: http.StatusUnauthorized, tag: v1.TagUnauthorized, title: "A valid token is needed"}
	forbidden    = kind{status: http.StatusForbidden, tag: v1.TagForbidden, title: "The identity of the caller does not allow this"}
	unsure       = kind{status: http.StatusServiceUnavailable, tag: v1.TagOverloaded, title: "The credential cannot be checked now", retry: time.Second}
	rateLimited  = kind{status: http.StatusTooManyRequests, tag: v1.TagRateLimited, title: "The caller makes too many requests", retry: time.Second}
)

var (
	errNoToken = fail(unauthorized, "this request needs a token: set OSQUEUE_TOKEN, or send Authorization: Bearer osq_…")
	errRevoked = fail(unauthorized, "the token was revoked or expired while the request waited")
)

// credential is the token or the certificate of a request, and its principal.
type credential struct {
	p    *auth.Principal // nil: none
	text string          // of the token, for the leader
	cert string          // the certificate, for the leader
	err  error           // why a given token does not count
}

type credentialKey struct{}

// access is the state of the checks of one server.
type access struct {
	SecurityConfig
	warned *rate.Limiter

	known  knownTokens
	asking chan struct{} // has an item for each question to the leader about a token

	watching sync.Once // starts watchTokens
	watched  sync.Map  // of *watch

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
	return &access{SecurityConfig: cfg, warned: rate.NewLimiter(1, 10), limiters: make(map[string]*rate.Limiter), asking: make(chan struct{}, asksAtOnce)}
}

func (a *access) off() bool { return a.Mode == "" || a.Mode == SecurityOff }

// identified returns a handler that authenticates requests for next, which may make requests
// of its own with their context.
func (s *Server) identified(next http.Handler) http.Handler {
	stranger := s.strangers()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := s.legacyOf(r); {
		case p != nil:
			next.ServeHTTP(w, withLegacy(r, p))
			return
		case s.access.off():
			next.ServeHTTP(w, r)
			return
		}
		cred := s.authenticate(r)
		ctx := context.WithValue(r.Context(), credentialKey{}, cred)
		if (cred.p == nil || cred.err != nil) && s.access.Mode == SecurityOn && takesMemory(r) {
			stranger.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if mayWait(r) {
			var stop context.CancelFunc
			ctx, stop = s.whileValid(ctx, cred)
			defer stop()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// strangers returns the handler of requests without a valid credential that take memory. The packages of
// compat open WebSockets and read bodies before they call the API, which refuses strangers.
func (s *Server) strangers() http.Handler {
	refuse := s.handler(&route{path: "of other contracts", at: anyNode, right: auth.Read, handle: (*call).noSuchRoute})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == pathSockets || !strings.HasPrefix(path, "/v1/") {
			refuse.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r) // it has no such route, or refuses the request before it reads the body
	})
}

// takesMemory reports whether a request may send much. The dashboard has a login, and the routes of nodes
// have their own checks.
func takesMemory(r *http.Request) bool {
	path := r.URL.Path
	return path == pathSockets || r.Method == http.MethodPost && !strings.HasPrefix(path, "/ui") && !strings.HasPrefix(path, "/cluster/")
}

// Identified returns the handler for calls that this process makes for a caller: it
// authenticates each by its own headers.
func (s *Server) Identified() http.Handler { return s.identified(s) }

// AsAdmin returns the handler for the admin socket of the node: its requests need no token.
func (s *Server) AsAdmin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dropNodeHeaders(r)
		cred := &credential{p: auth.LocalAdmin()}
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), credentialKey{}, cred)))
	})
}

// credentialOf returns the credential of a request, which identified may have stored.
func (s *Server) credentialOf(r *http.Request) *credential {
	if cred, ok := r.Context().Value(credentialKey{}).(*credential); ok {
		return cred
	}
	return s.authenticate(r)
}

// authenticate returns the credential in the headers of a request.
func (s *Server) authenticate(r *http.Request) *credential {
	if p := s.principalOfNode(r); p != nil {
		return &credential{p: p}
	}
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return s.certificateOf(r)
	}
	text := auth.Bearer(headers[0])
	p, err := s.principalOf(r.Context(), text)
	if errors.Is(err, auth.ErrUnknown) {
		p, err = s.awaitToken(r, text)
	}
	return &credential{p: p, text: text, err: err}
}

// certificateOf returns the credential of a request without a token.
func (s *Server) certificateOf(r *http.Request) *credential {
	if s.access.Certificate == nil {
		return &credential{}
	}
	p, cert, err := s.access.Certificate(r)
	return &credential{p: p, cert: cert, err: err}
}

// principalOf returns the principal of a bearer credential.
func (s *Server) principalOf(ctx context.Context, text string) (*auth.Principal, error) {
	if s.access.Bearer != nil && !auth.IsToken(text) {
		return s.access.Bearer(ctx, text)
	}
	return s.access.known.authorize(text, time.Now().UnixMilli(), s.b.Token)
}

// stillValid returns an error if a principal that was valid has ended.
func (s *Core) stillValid(p *auth.Principal) error {
	now := time.Now().UnixMilli()
	if p.ExpiresAt != 0 && p.ExpiresAt <= now {
		return errRevoked
	}
	if p.Kind != auth.KindToken {
		return nil
	}
	if t := s.b.Token(p.ID); t == nil || t.ExpiresAt != 0 && t.ExpiresAt <= now {
		return errRevoked
	}
	return nil
}

// pathSockets is the path of the WebSockets of package compat/osqueue.
const pathSockets = "/v1/ws"

// mayWait reports whether a request may take longer than a moment: requests of other contracts,
// streams, and those that ask to wait. A read with any query may wait: it need not write waitMs and minLsn
// without escapes.
func mayWait(r *http.Request) bool {
	path := r.URL.Path
	return !strings.HasPrefix(path, "/v1/") || path == v1.PathEvents || path == v1.PathClaim || path == v1.PathLogs || path == frame.Path || path == pathSockets ||
		strings.HasPrefix(path, v1.PathLSN) || r.URL.RawQuery != "" && r.Method == http.MethodGet
}

// watch is a request that waits with a credential.
type watch struct {
	p      *auth.Principal
	cancel context.CancelCauseFunc
}

// whileValid returns a context that ends, with the cause errRevoked, when the credential does, if
// the server enforces tokens and cred has a valid one.
func (s *Core) whileValid(ctx context.Context, cred *credential) (context.Context, context.CancelFunc) {
	if s.access.Mode != SecurityOn || cred == nil || cred.p == nil || cred.p.Kind == auth.KindLocal {
		return ctx, func() {}
	}
	s.access.watching.Do(func() { go s.watchTokens() })
	ctx, cancel := context.WithCancelCause(ctx)
	w := &watch{cred.p, cancel}
	s.access.watched.Store(w, nil)
	if s.stillValid(cred.p) != nil { // it ended before it was watched
		cancel(errRevoked)
	}
	expiry := func() bool { return true }
	if at := cred.p.ExpiresAt; at != 0 {
		expiry = time.AfterFunc(time.Until(time.UnixMilli(at)), func() { cancel(errRevoked) }).Stop
	}
	return ctx, func() {
		expiry()
		s.access.watched.Delete(w)
		cancel(nil)
	}
}

// watchTokens ends the requests that wait with a token when the state loses it, until the server
// closes.
func (s *Core) watchTokens() {
	for {
		ended := s.b.TokensEnded()
		s.access.watched.Range(func(key, _ any) bool {
			if w := key.(*watch); s.stillValid(w.p) != nil {
				w.cancel(errRevoked)
			}
			return true
		})
		select {
		case <-ended:
		case <-s.closing.Done():
			return
		}
	}
}

// authorize checks that the caller may use the route. In the mode log it only warns.
func (s *Core) authorize(c *call) error {
	if s.access.off() {
		return s.authorizeLegacy(c)
	}
	cred := c.peer.credential()
	c.principal = cred.p
	if cred.p != nil && cred.p.Kind == auth.KindLegacy {
		return s.checkLegacy(c)
	}
	err := s.mayUse(c, cred)
	if err == nil {
		return nil
	}
	if s.access.Mode == SecurityLog {
		s.wouldRefuse(c, err)
		return nil
	}
	if failureOf(err).status == http.StatusUnauthorized {
		c.challenge = true
	}
	return err
}

func (s *Core) mayUse(c *call, cred *credential) error {
	if c.route.right&auth.Public != 0 {
		return nil
	}
	switch {
	case errors.Is(cred.err, auth.ErrDenied):
		return fail(forbidden, "%v", cred.err)
	case errors.Is(cred.err, errUnsure):
		return fail(noLeader, "%v", cred.err)
	case errors.Is(cred.err, auth.ErrUnsure):
		return fail(unsure, "%v", cred.err)
	case cred.err != nil:
		return fail(unauthorized, "%v", cred.err)
	case cred.p == nil:
		return errNoToken
	case !cred.p.Has(c.route.right):
		return fail(forbidden, "%s %s needs %s; %s has the role %s", c.route.method, c.route.path, c.route.right.Needed(), cred.p, cred.p.Role)
	case cred.p.Kind == auth.KindLocal:
		return s.localOnly(c)
	}
	// A stream keeps the credential that it was opened with.
	if err := s.stillValid(cred.p); err != nil {
		return err
	}
	if !s.access.withinRate(cred.p) {
		return fail(rateLimited, "%s has used up its rate; send fewer requests per second", cred.p)
	}
	if cred.p.Kind == auth.KindToken {
		s.touch(c, cred.p.ID)
	}
	return nil
}

// localOnly refuses requests of the admin socket that another node would have to answer, unless
// the nodes trust each other.
func (s *Core) localOnly(c *call) error {
	leader, self := s.b.Leader()
	if c.route.at == anyNode || self || leader == "" || s.cfg.NodesTrusted {
		return nil
	}
	return fail(notLeader, "this node is not the leader: use the admin socket of the leader, %s", leader)
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
func (s *Core) touch(c *call, id string) {
	t := s.b.Token(id)
	if t == nil || t.UsedAt != 0 && s.b.Now()-t.UsedAt < touchEvery.Milliseconds() {
		return
	}
	if _, self := s.b.Leader(); !self {
		return
	}
	ctx, cancel := context.WithTimeout(c.context(), s.cfg.Timeouts.Commit)
	defer cancel()
	if err := s.gate.touch(ctx, id); err != nil {
		s.log.Debug("cannot record the use of a token", "token", id, "reason", err)
	}
}

// wouldRefuse logs a request that the mode on would refuse, at most one a second.
func (s *Core) wouldRefuse(c *call, err error) {
	if s.access.warned.Allow() {
		s.log.Warn("--security=on would refuse a request", "method", c.method, "route", c.route.path, "client", c.remote, "reason", err)
	}
}
