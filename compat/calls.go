// Package compat makes the calls of the contracts of the two older systems, packages osqueue and dtq. Their handlers know
// the shapes of their own clients, and this package how the API answers: each operation, each wait, each limit and the
// forwarding to the leader has one implementation, that of the API.
package compat

import (
	"context"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
)

// API is the API of the node, in this process.
type API interface {
	// Call makes one call with the credential of ctx. target is an escaped path with its query, remote the address of the
	// client. in is the body, and out gets the answer: pointers to structs of package v1, or nil. A refusal is a problem.
	Call(ctx context.Context, method, target, remote string, in, out any) *v1.Problem
	// Pass is Call for a client that speaks the JSON of the HTTP API: body is what it has sent, and the answer goes into
	// into. whole is false if the answer broke off.
	Pass(ctx context.Context, method, target, remote string, body []byte, into http.ResponseWriter) (whole bool)
}

// Refusal is a refusal by the API, or an answer that broke off.
type Refusal struct {
	Status      int
	Tag, Detail string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Detail }

// Lenient accepts the payloads that the API accepts. It keeps strings as they were sent: lone surrogates exist only as
// escapes.
var Lenient = json.JoinOptions(
	jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true), jsontext.PreserveRawStrings(true),
)

// Kept keeps the answer to a call, as web.Answer does.
type Kept interface {
	http.ResponseWriter
	Result() (status int, body []byte)
}

// Do makes one call for the client at remote. A refusal is an error.
func Do(ctx context.Context, api API, remote, method, target string, in, out any) error {
	p := api.Call(ctx, method, target, remote, in, out)
	switch {
	case p == nil:
		return nil
	case ctx.Err() != nil && p.Status >= http.StatusInternalServerError:
		return ctx.Err()
	}
	return &Refusal{p.Status, p.Tag, p.Detail}
}

// Read makes one read and keeps a successful answer in into. A refusal is an error.
func Read(ctx context.Context, api API, remote, target string, into Kept) error {
	whole := api.Pass(ctx, http.MethodGet, target, remote, nil, into)
	status, answer := into.Result()
	switch {
	case !whole:
		return &Refusal{http.StatusServiceUnavailable, v1.TagLeaderGone, "the connection to the leader broke before it answered"}
	case ctx.Err() != nil && status >= http.StatusInternalServerError:
		return ctx.Err()
	case status < http.StatusMultipleChoices:
		return nil
	}
	var p v1.Problem
	if err := json.Unmarshal(answer, &p, Lenient); err != nil || p.Tag == "" {
		return &Refusal{status, v1.TagInternal, http.StatusText(status)}
	}
	return &Refusal{status, p.Tag, p.Detail}
}

// Decode reads a successful answer.
func Decode(a Kept, into any) error {
	_, answer := a.Result()
	if err := json.Unmarshal(answer, into, Lenient); err != nil {
		return fmt.Errorf("read the answer to a call: %w", err)
	}
	return nil
}
