package dtq

import (
	"context"
	"errors"
	"net/http"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

const commitTimeout = "Commit timeout"

// failed returns the answer for an operation that the HTTP API refused, or whose
// outcome is unknown.
func (h *Handler) failed(c *call, err error) *reply {
	var p *compat.Refusal
	switch {
	case errors.As(err, &p):
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return refusal(http.StatusServiceUnavailable, commitTimeout)
	default:
		h.cfg.Logger.Error("a request failed", "error", err)
		return refusal(http.StatusInternalServerError, "the node failed to answer")
	}
	switch p.Tag {
	case v1.TagNotLeader, v1.TagNoLeader:
		return refusal(http.StatusServiceUnavailable, "Not the leader (current leader: "+h.leaderName(c)+")")
	case v1.TagUnknownOutcome, v1.TagLeaderGone, v1.TagTimeout:
		return refusal(http.StatusServiceUnavailable, commitTimeout)
	}
	return refusal(p.Status, p.Detail)
}

// leaderName returns the leader's name for dtq's error text, "None" if no leader is
// known.
func (h *Handler) leaderName(c *call) string {
	if name := h.cfg.Leader(c.r).Node; name != "" {
		return name
	}
	return "None"
}

// isDenied reports whether err says that the client may not make the call.
func isDenied(err error) bool {
	var p *compat.Refusal
	return errors.As(err, &p) && (p.Status == http.StatusUnauthorized || p.Status == http.StatusForbidden || p.Status == http.StatusTooManyRequests)
}

// isTag reports whether err is a refusal with the tag.
func isTag(err error, tag string) bool {
	var p *compat.Refusal
	return errors.As(err, &p) && p.Tag == tag
}
