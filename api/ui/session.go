package ui

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/base64"
	"encoding/binary"
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
	// linksMax bounds the codes that have not been used. The oldest goes first.
	linksMax = 1024
	// cookieMax bounds the value of a cookie, in bytes.
	cookieMax = 4096
)

// sessions seals tokens into cookies, and keeps the codes of links. It is safe for concurrent
// use.
type sessions struct {
	aead cipher.AEAD
	now  func() time.Time

	mu    sync.Mutex
	links map[string]pendingLink // by code
}

// pendingLink has the token of a code.
type pendingLink struct {
	token string
	until time.Time
}

func newSessions() *sessions {
	var key [32]byte
	_, _ = rand.Read(key[:]) // crypto/rand never fails
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has a valid length
	}
	aead, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err) // AES has the block size of GCM
	}
	return &sessions{aead: aead, now: time.Now, links: make(map[string]pendingLink)}
}

// seal returns the value of a cookie for host.
func (s *sessions) seal(token, host string) string {
	plain := binary.BigEndian.AppendUint64(nil, uint64(s.now().Add(sessionLife).UnixMilli()))
	return base64.RawURLEncoding.EncodeToString(s.aead.Seal(nil, nil, append(plain, token...), []byte(host))) //nolint:gosec // the AEAD adds a random nonce itself
}

// open returns the token in the value of a cookie, or "".
func (s *sessions) open(value, host string) string {
	if len(value) > cookieMax {
		return ""
	}
	sealed, err := base64.RawURLEncoding.DecodeString(value)
	if err != nil {
		return ""
	}
	plain, err := s.aead.Open(nil, nil, sealed, []byte(host))
	if err != nil || len(plain) < 8 || int64(binary.BigEndian.Uint64(plain)) < s.now().UnixMilli() {
		return ""
	}
	return string(plain[8:])
}

// add returns a code for the token.
func (s *sessions) add(token string) string {
	code := rand.Text()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.links) >= linksMax {
		s.dropOldest()
	}
	s.links[code] = pendingLink{token: token, until: s.now().Add(linkLife)}
	return code
}

func (s *sessions) dropOldest() {
	oldest := ""
	for code, l := range s.links {
		if oldest == "" || l.until.Before(s.links[oldest].until) {
			oldest = code
		}
	}
	delete(s.links, oldest)
}

// take returns the token of a code, and removes it, or "".
func (s *sessions) take(code string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	l, ok := s.links[code]
	delete(s.links, code)
	if !ok || l.until.Before(s.now()) {
		return ""
	}
	return l.token
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

// signedIn returns the token of the session, or "".
func (q *request) signedIn() string {
	c, err := q.r.Cookie(cookieName(q.r))
	if err != nil {
		return ""
	}
	return q.sessions.open(c.Value, strings.ToLower(q.r.Host))
}

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
