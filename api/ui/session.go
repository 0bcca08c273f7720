package ui

import (
	"crypto/rand"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

const (
	// sessionLife is the length of a session.
	sessionLife = 12 * time.Hour
	// linkLife is the time within which the code of a link must be used.
	linkLife = 10 * time.Minute
	// ticketsMax bounds the sessions of a node, and the codes that have not been used.
	ticketsMax = 1024
	// ticketsEach bounds those of one token, so that one user cannot end the sessions of others.
	ticketsEach = 64
	// tokenMax bounds the token of a session, in bytes: that of a long JWT.
	tokenMax = 16 << 10
)

// tickets exchanges tokens for random keys: the cookies of sessions, and the codes of links. A key is
// valid for one host ("": for all), until its time is over or end removes it. It is safe for concurrent use.
type tickets struct {
	life time.Duration
	now  func() time.Time

	mu   sync.Mutex
	open map[string]ticket // by key
}

// ticket is what a key stands for.
type ticket struct {
	token, host string
	until       time.Time
}

func newTickets(life time.Duration) *tickets {
	return &tickets{life: life, now: time.Now, open: make(map[string]ticket)}
}

// add returns a key for a token, or "" if the token is too long. If there are too many keys, the oldest one of
// the token ends, or the oldest one of all.
func (s *tickets) add(token, host string) string {
	if len(token) > tokenMax {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dropOldest(ticketsEach, func(t ticket) bool { return t.token == token })
	s.dropOldest(ticketsMax, func(ticket) bool { return true })
	key := rand.Text()
	s.open[key] = ticket{token: token, host: host, until: s.now().Add(s.life)}
	return key
}

// dropOldest ends the oldest of the keys that match, if there are most of them.
func (s *tickets) dropOldest(most int, matches func(ticket) bool) {
	n, oldest := 0, ""
	for key, t := range s.open {
		if !matches(t) {
			continue
		}
		if n++; oldest == "" || t.until.Before(s.open[oldest].until) {
			oldest = key
		}
	}
	if n >= most {
		delete(s.open, oldest)
	}
}

// token returns the token of a key, or "".
func (s *tickets) token(key, host string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.open[key]
	if !ok || t.host != host {
		return ""
	}
	if t.until.Before(s.now()) {
		delete(s.open, key)
		return ""
	}
	return t.token
}

// end returns the token of a key, or "", and ends the key.
func (s *tickets) end(key, host string) string {
	token := s.token(key, host)
	if token != "" {
		s.mu.Lock()
		delete(s.open, key)
		s.mu.Unlock()
	}
	return token
}

// cookieName returns the name of the cookie of this node. Browsers send the cookies of a host
// to all of its ports, so the name has the port.
func cookieName(r *http.Request) string {
	name := "osqueue"
	if _, port, err := net.SplitHostPort(r.Host); err == nil {
		name += "-" + port
	}
	if r.TLS != nil {
		return "__Host-" + name
	}
	return name
}

// setCookie stores a value in the browser until it is closed; "" removes it. Lax: a link in a chat or
// an alert opens its page in the session.
func (q *request) setCookie(value string) {
	c := http.Cookie{ //nolint:gosec // without TLS, which is for loopback, a browser would not send a secure one
		Name: cookieName(q.r), Value: value, Path: "/",
		HttpOnly: true, Secure: q.r.TLS != nil, SameSite: http.SameSiteLaxMode,
	}
	if value == "" {
		c.MaxAge = -1
	}
	http.SetCookie(q.w, &c)
}

// session returns the key of the session in the cookie, or "".
func (q *request) session() string {
	c, err := q.r.Cookie(cookieName(q.r))
	if err != nil {
		return ""
	}
	return c.Value
}

// host returns the host that the browser asked.
func (q *request) host() string { return strings.ToLower(q.r.Host) }

// signedIn returns the token of the session, or "".
func (q *request) signedIn() string { return q.sessions.token(q.session(), q.host()) }

// authorization returns the value of the Authorization header for the calls of this request.
func (q *request) authorization() string {
	if value := q.r.Header.Get("Authorization"); value != "" {
		return value
	}
	if token := q.signedIn(); token != "" {
		return "Bearer " + token
	}
	return ""
}
