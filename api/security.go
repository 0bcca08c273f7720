package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/client/api/v1/frame"
	"osqueue/internal/auth"
	"osqueue/internal/sleep"
	"osqueue/internal/web"
)

// identified returns a handler that authenticates requests for next, which may make requests
// of its own with their context.
func (s *Server) identified(next http.Handler) http.Handler {
	stranger := s.strangers()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch p := s.legacyOf(r); {
		case p != nil:
			next.ServeHTTP(w, withLegacy(r, p))
			return
		case s.Access.Off():
			next.ServeHTTP(w, r)
			return
		}
		cred := s.authenticate(r)
		ctx := context.WithValue(r.Context(), core.CredentialKey{}, cred)
		if (cred.P == nil || cred.Err != nil) && s.Access.Mode == core.SecurityOn && takesMemory(r) {
			stranger.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if mayWait(r) {
			var stop context.CancelFunc
			ctx, stop = s.WhileValid(ctx, cred)
			defer stop()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// takesMemory reports whether a request may send much. The dashboard has a login, and the routes of nodes
// have their own checks.
func takesMemory(r *http.Request) bool {
	path := r.URL.Path
	return path == pathSockets || r.Method == http.MethodPost && !strings.HasPrefix(path, "/ui") && !strings.HasPrefix(path, "/cluster/")
}

// pathSockets is the path of the WebSockets of package compat/osqueue.
const pathSockets = "/v1/ws"

// mayWait reports whether a request may take longer than a moment: requests of other contracts,
// streams, and those that ask to wait. A read with any query may wait: it need not write waitMs and minLsn
// without escapes.
func mayWait(r *http.Request) bool {
	path := r.URL.Path
	return !strings.HasPrefix(path, "/v1/") || strings.HasPrefix(path, v1.PathArtefacts) || path == v1.PathEvents || path == v1.PathClaim || path == v1.PathLogs || path == frame.Path || path == pathSockets ||
		strings.HasPrefix(path, v1.PathLSN) || r.URL.RawQuery != "" && (r.Method == http.MethodGet || r.Method == http.MethodHead)
}

// strangers returns the handler of requests without a valid credential that take memory. The packages of
// compat open WebSockets and read bodies before they call the API, which refuses strangers.
func (s *Server) strangers() http.Handler {
	refuse := s.handler(&core.Route{Path: "of other contracts", At: core.AnyNode, Right: auth.Read, Handle: (*core.Call).NoSuchRoute})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == pathSockets || !strings.HasPrefix(path, "/v1/") && !isLink(path) {
			refuse.ServeHTTP(w, r)
			return
		}
		s.ServeHTTP(w, r) // it has no such route, or refuses the request before it reads the body
	})
}

// Identified returns the handler for calls that this process makes for a caller: it
// authenticates each by its own headers.
func (s *Server) Identified() http.Handler { return s.identified(s) }

// AsAdmin returns the handler for the admin socket of the node: its requests need no token.
func (s *Server) AsAdmin() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dropNodeHeaders(r)
		cred := &core.Credential{P: auth.LocalAdmin()}
		s.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), core.CredentialKey{}, cred)))
	})
}

// credentialOf returns the credential of a request, which identified may have stored.
func (s *Server) credentialOf(r *http.Request) *core.Credential {
	if cred, ok := r.Context().Value(core.CredentialKey{}).(*core.Credential); ok {
		return cred
	}
	return s.authenticate(r)
}

// authenticate returns the credential in the headers of a request.
func (s *Server) authenticate(r *http.Request) *core.Credential {
	if p := s.principalOfNode(r); p != nil {
		return &core.Credential{P: p}
	}
	seen := s.Identities()
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return s.certificateOf(r, seen)
	}
	text := auth.Bearer(headers[0])
	p, err := s.principalOf(r.Context(), text)
	if errors.Is(err, auth.ErrUnknown) {
		p, err = s.awaitToken(r, text)
	}
	return &core.Credential{P: p, Text: text, Err: err, Seen: seen}
}

// certificateOf returns the credential of a request without a token.
func (s *Server) certificateOf(r *http.Request, seen uint64) *core.Credential {
	if s.Access.Certificate == nil {
		return &core.Credential{}
	}
	p, cert, err := s.Access.Certificate(r.TLS, r.Header.Get(v1.HeaderCertificate))
	return &core.Credential{P: p, Cert: cert, Err: err, Seen: seen}
}

// principalOf returns the principal of a bearer credential.
func (s *Server) principalOf(ctx context.Context, text string) (*auth.Principal, error) {
	if s.Access.Bearer != nil && !auth.IsToken(text) {
		return s.Access.Bearer(ctx, text)
	}
	return s.Access.Known.Authorize(text, time.Now().UnixMilli(), s.Node.Token)
}

// awaitToken authorizes a token that the state of this node lacked. On a node that does not lead
// the leader decides whether the token exists. If it does, awaitToken waits until this node has it.
func (s *Server) awaitToken(r *http.Request, text string) (*auth.Principal, error) {
	ctx, cancel := context.WithTimeout(r.Context(), core.TokenPatience)
	defer cancel()
	exists := false
	for {
		leader, self := s.Node.Leader() // before it looks: the state may get the token meanwhile
		p, err := auth.Authorize(text, time.Now().UnixMilli(), s.Node.Token)
		if !errors.Is(err, auth.ErrUnknown) || self {
			return p, err
		}
		if !exists {
			known, askErr := s.askLeader(ctx, r, leader, text)
			switch {
			case askErr != nil:
				return nil, fmt.Errorf("%w (%w)", core.ErrUnsure, askErr)
			case !known:
				return nil, err
			}
			exists = true
		}
		if !sleep.For(ctx, core.TokenLook) {
			return nil, core.ErrUnsure
		}
	}
}

// addressOf returns the address of the client of a request, without its port if another node
// has forwarded the request.
func addressOf(r *http.Request) string {
	if from := forwardedFor(r); from != "" {
		return from
	}
	return r.RemoteAddr
}

// forwardedFor returns the address of the client whose request another node has forwarded, or
// "". That node adds it to the list of proxies.
func forwardedFor(r *http.Request) string {
	list := r.Header["X-Forwarded-For"]
	if len(r.Header[v1.HeaderForwarded]) == 0 || len(list) == 0 {
		return ""
	}
	all := list[len(list)-1]
	return strings.TrimSpace(all[strings.LastIndexByte(all, ',')+1:])
}

// ClientOf names the client of a request that the server has identified, for the shares of other
// contracts.
func ClientOf(r *http.Request) string { return core.ClientFrom(r.Context(), addressOf(r)) }

// askLeader reports whether the leader knows a token that came with r. It asks for the rights of
// the token.
func (s *Server) askLeader(ctx context.Context, r *http.Request, leader, text string) (known bool, err error) {
	switch {
	case leader == "":
		return false, errors.New("this node knows no leader")
	case len(r.Header[v1.HeaderForwarded]) > 0:
		return false, errors.New("another node forwarded the request to this one, which is not the leader")
	}
	select {
	case s.Access.Asking <- struct{}{}:
		defer func() { <-s.Access.Asking }()
	case <-ctx.Done():
		return false, ctx.Err()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+leader+v1.PathSelf, http.NoBody)
	if err != nil {
		return false, err
	}
	req.Header["Authorization"] = []string{"Bearer " + text}
	req.Header["X-Forwarded-For"] = []string{web.HostOf(r.RemoteAddr)}
	req.Header.Set(v1.HeaderForwarded, s.Name)
	resp, err := s.Config.Transport.RoundTrip(req)
	if err != nil {
		return false, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, core.SelfMax))
	if err != nil {
		return false, err
	}
	return knownBy(resp.StatusCode, body)
}

// knownBy reads the answer of the leader about a token.
func knownBy(status int, body []byte) (known bool, err error) {
	switch status {
	case http.StatusUnauthorized:
		return false, nil
	case http.StatusForbidden, http.StatusTooManyRequests:
		return true, nil
	case http.StatusOK:
		var self v1.Self
		if err := json.Unmarshal(body, &self, core.Lenient); err != nil {
			return false, err
		}
		if self.ID == "" {
			return false, fmt.Errorf("the leader has --security=%s, and checks no tokens", self.Security)
		}
		return true, nil
	}
	return false, fmt.Errorf("the leader answered %d", status)
}
