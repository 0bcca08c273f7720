package api

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"osqueue/api/core"
	"osqueue/internal/auth"
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
		if (cred.P == nil || cred.Err != nil) && s.Access.Mode == core.SecurityOn && core.TakesMemory(r) {
			stranger.ServeHTTP(w, r.WithContext(ctx))
			return
		}
		if core.MayWait(r) {
			var stop context.CancelFunc
			ctx, stop = s.WhileValid(ctx, cred)
			defer stop()
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// strangers returns the handler of requests without a valid credential that take memory. The packages of
// compat open WebSockets and read bodies before they call the API, which refuses strangers.
func (s *Server) strangers() http.Handler {
	refuse := s.handler(&core.Route{Path: "of other contracts", At: core.AnyNode, Right: auth.Read, Handle: (*core.Call).NoSuchRoute})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := r.URL.Path; path == core.PathSockets || !strings.HasPrefix(path, "/v1/") {
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
	headers := r.Header["Authorization"]
	if len(headers) == 0 {
		return s.certificateOf(r)
	}
	text := auth.Bearer(headers[0])
	p, err := s.principalOf(r.Context(), text)
	if errors.Is(err, auth.ErrUnknown) {
		p, err = s.awaitToken(r, text)
	}
	return &core.Credential{P: p, Text: text, Err: err}
}

// certificateOf returns the credential of a request without a token.
func (s *Server) certificateOf(r *http.Request) *core.Credential {
	if s.Access.Certificate == nil {
		return &core.Credential{}
	}
	p, cert, err := s.Access.Certificate(r)
	return &core.Credential{P: p, Cert: cert, Err: err}
}

// principalOf returns the principal of a bearer credential.
func (s *Server) principalOf(ctx context.Context, text string) (*auth.Principal, error) {
	if s.Access.Bearer != nil && !auth.IsToken(text) {
		return s.Access.Bearer(ctx, text)
	}
	return s.Access.Known.Authorize(text, time.Now().UnixMilli(), s.Node.Token)
}
