package osqueue

import (
	"cmp"
	"net/http"

	"connectrpc.com/connect"

	v1 "osqueue/api/v1"
)

// The errors of the original, by the member _tag.
const (
	protocolError = "BrokerProtocolError" // the client's fault
	storageError  = "StorageBackendError" // it cannot be stored, or looked up, now
	conflictError = "CASConflictError"    // another broker has taken over
)

// fault is a refusal of the HTTP API.
type fault struct {
	native  string // a v1.Tag…
	message string
}

func (f *fault) Error() string { return f.message }

// meaning is what a fault is called in the contract.
type meaning struct {
	tag  string
	code connect.Code
	// status of REST; 0: the API's. The original has one for everything; a client
	// may go by it where the fault is one that the original has, too.
	status int
	// ours: REST tells it in the API's words, since it comes of what the original
	// does not have.
	ours bool
}

// meanings say how refusals are told to clients of the original. What is missing
// comes only of what they do not send (tokens, unique keys, …), and is told in the
// API's words.
var meanings = map[string]meaning{
	v1.TagBadRequest: {tag: protocolError, code: connect.CodeInvalidArgument},
	v1.TagNoID:       {tag: protocolError, code: connect.CodeInvalidArgument},
	v1.TagMediaType:  {tag: protocolError, code: connect.CodeInvalidArgument},
	v1.TagTooLarge:   {tag: protocolError, code: connect.CodeResourceExhausted},

	v1.TagNoLeader:       {tag: storageError, code: connect.CodeUnavailable},
	v1.TagLeaderGone:     {tag: storageError, code: connect.CodeUnavailable},
	v1.TagOverloaded:     {tag: storageError, code: connect.CodeUnavailable},
	v1.TagFlushLag:       {tag: storageError, code: connect.CodeInternal, status: http.StatusInternalServerError},
	v1.TagUnknownOutcome: {tag: storageError, code: connect.CodeUnavailable},
	v1.TagClosing:        {tag: storageError, code: connect.CodeUnavailable},
	v1.TagTimeout:        {tag: storageError, code: connect.CodeUnavailable},
	v1.TagInternal:       {tag: storageError, code: connect.CodeInternal},

	v1.TagNotLeader: {tag: conflictError, code: connect.CodeUnavailable},

	// Quotas.
	v1.TagPayloadTooLarge: {tag: protocolError, code: connect.CodeResourceExhausted, ours: true},
	v1.TagTooManyJobs:     {tag: storageError, code: connect.CodeResourceExhausted, ours: true},
	v1.TagTooManyBytes:    {tag: storageError, code: connect.CodeResourceExhausted, ours: true},
	v1.TagTooManyQueues:   {tag: storageError, code: connect.CodeResourceExhausted, ours: true},
}

// meaning is that of a fault that must be told in the contract's words.
func (f *fault) meaning() meaning {
	if m, ok := meanings[f.native]; ok {
		return m
	}
	return meaning{tag: storageError, code: connect.CodeInternal}
}

// inREST is how REST answers to a refusal that the API gives that status: with
// that _tag, which is "" if the contract has none for it.
func inREST(native string, given int) (tag string, status int) {
	if native == v1.TagTimeout && given == http.StatusRequestTimeout {
		return protocolError, given // it was the request that took too long
	}
	m := meanings[native]
	if m.ours {
		return "", given
	}
	return m.tag, cmp.Or(m.status, given)
}
