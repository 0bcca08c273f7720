// Package v1 is the wire format of osqueue's HTTP API: the JSON bodies of its
// requests and answers, its paths and its headers. Server and client share it.
// wire.gen.go is generated from api/openapi.yaml, the contract, whose descriptions
// are its comments. The rest is written by hand.
//
// Names are lowerCamel, except in /status, which is snake_case because older tools
// read it in that form. Times are milliseconds since 1970. Durations are
// milliseconds, and their names end in Ms. An LSN is a text of the form
// "term-index".
//
// An absent field differs from null only in payloads and results, which are opaque
// JSON: absent is nil here, null is the four bytes "null". Elsewhere null counts as
// absent.
//
// The requests and answers of the busiest calls are Messages: they also have an encoding in protobuf, which streams use.
//
// The server refuses requests with unknown fields. Five routes of older contracts
// (enqueue, claim, complete, heartbeat and release of one job) ignore such fields,
// unless the request has the header "Prefer: handling=strict". Answers may get more
// fields over time: readers must ignore unknown ones.
package v1

// Headers of the API's own.
const (
	// HeaderLSN is on every answer to a write: the LSN of the log entry that
	// it is in. Reads carry the LSN of the state that they show.
	HeaderLSN = "Osqueue-Lsn"
	// HeaderCommitted is on every answer to a write that took place: the ack
	// level that it has reached for certain.
	HeaderCommitted = "Osqueue-Committed"
	// HeaderForwarded is on requests that one node forwarded to another: the name of the
	// forwarding node. It counts on the port for nodes only.
	HeaderForwarded = "Osqueue-Forwarded"
	// HeaderCertificate is on requests that one node forwarded to another: the client
	// certificate that the first has verified. It counts on connections with a
	// node's certificate only.
	HeaderCertificate = "Osqueue-Client-Certificate"
	// HeaderPrincipal is on forwarded requests without a token: the principal that the
	// forwarding node has given them. It counts on connections with a node's certificate only.
	HeaderPrincipal = "Osqueue-Principal"
	// HeaderReplayed is "true" on an answer that repeats the first.
	HeaderReplayed = "Idempotency-Replayed"
)

// Values of parameters that only nodes send to each other, for clients of the legacy broker.
const (
	ConsistencyLegacy = "legacy" // as ConsistencyLeader, and also while the bucket takes no writes
	LimitAll          = "all"    // all pages in one answer
)

// PreferStrict is the value of the header Prefer that turns unknown fields
// into errors.
const PreferStrict = "handling=strict"

// MediaTypeProblem is the content type of every answer that is not 2xx.
const MediaTypeProblem = "application/problem+json"

// ProblemTypePrefix and a Problem's Tag make its Type.
const ProblemTypePrefix = "urn:osqueue:problem:"

// The Status of a ReportedItem that was accepted.
const (
	ItemOK        = "ok"
	ItemDuplicate = "duplicate"
)

// TagNotDue is the refusal of the fire of a schedule that is not due: 409, not seen outside.
const TagNotDue = "not_due"
