package api

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"

	"osqueue/api/core"
	v1 "osqueue/client/api/v1"
	"osqueue/internal/auth"
	"osqueue/internal/sleep"
)

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
	req.Header["X-Forwarded-For"] = []string{core.HostOf(r.RemoteAddr)}
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
