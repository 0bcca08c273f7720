package osqueue

import (
	"cmp"
	"net/http"

	"connectrpc.com/connect"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

// The errors of the legacy broker, by the field _tag.
const (
	protocolError = "BrokerProtocolError" // the client's fault
	storageError  = "StorageBackendError" // the job cannot be stored or read now
	conflictError = "CASConflictError"    // another broker has taken over
)

// A meaning is the form of a refusal in the contract.
type meaning struct {
	tag  string
	code connect.Code
	// status is the status of REST; 0 means the API's. It is set for faults that the
	// legacy broker has too, since a client may test its status.
	status int
	// ours means that REST keeps the API's words, since the legacy broker does not have
	// the feature.
	ours bool
}

// meanings maps the refusals of the API to the contract. A refusal that is missing here
// comes from a feature that legacy clients do not use (tokens, unique keys, …) and keeps
// the API's words.
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

	v1.TagTooManyTokenJobs:  {tag: storageError, code: connect.CodeResourceExhausted, ours: true},
	v1.TagTooManyTokenBytes: {tag: storageError, code: connect.CodeResourceExhausted, ours: true},
}

// meaningOf returns the form of a refusal in the contract.
func meaningOf(f *compat.Refusal) meaning {
	if m, ok := meanings[f.Tag]; ok {
		return m
	}
	return meaning{tag: storageError, code: connect.CodeInternal}
}

// inREST returns the _tag and the status of a refusal in REST. given is the API's
// status; tag is "" if the contract has no word for the refusal.
func inREST(native string, given int) (tag string, status int) {
	if native == v1.TagTimeout && given == http.StatusRequestTimeout {
		return protocolError, given // the client sent the request too slowly
	}
	m := meanings[native]
	if m.ours {
		return "", given
	}
	return m.tag, cmp.Or(m.status, given)
}
