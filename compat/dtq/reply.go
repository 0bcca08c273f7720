package dtq

import (
	"context"
	"errors"
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

// A reply is an answer that is ready to be written.
type reply struct {
	status int
	body   []byte // JSON; nil for no body
}

// lenient accepts the JSON that the HTTP API accepts in payloads.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// sorted encodes objects with their fields in the order of their names, as dtq does.
var sorted = json.JoinOptions(lenient, json.Deterministic(true), jsontext.ReorderRawObjects(true))

// jsonReply answers with v. The fields of structs must stand in the order of their
// names.
func jsonReply(status int, v any) *reply {
	body, err := json.Marshal(v, sorted)
	if err != nil { // a payload that the node has stored cannot be encoded
		return &reply{http.StatusInternalServerError, []byte(`{"error":"the node failed to answer"}`)}
	}
	return &reply{status, body}
}

// refusal is an answer with an error.
func refusal(status int, text string) *reply {
	return jsonReply(status, struct {
		Error string `json:"error"`
	}{text})
}

// message is an answer with a message.
func message(status int, text string) *reply {
	return jsonReply(status, struct {
		Message string `json:"message"`
	}{text})
}

func (a *reply) write(w http.ResponseWriter) {
	if a.body == nil {
		w.WriteHeader(a.status)
		return
	}
	h := w.Header()
	h["Content-Type"], h["Content-Length"] = []string{"application/json"}, []string{strconv.Itoa(len(a.body) + 1)}
	w.WriteHeader(a.status)
	_, _ = w.Write(append(a.body, '\n')) // if the client has gone, the state has changed nevertheless
}

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
