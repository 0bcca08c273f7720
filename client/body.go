package client

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/url"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
)

// readProblem reads the body of an answer that is not 2xx. It returns an empty
// problem if the body is not a problem of an osqueue node.
func readProblem(body []byte) problem {
	if bytes.HasPrefix(body, wantsTLS) {
		return problem{wantsTLS: true, message: "this server speaks TLS: give the cluster's CA (Config.TLS, --ca or OSQUEUE_CA), or make the client by client.FromContext"}
	}
	var p v1.Problem
	if err := jsonv2.Unmarshal(body, &p); err != nil || p.Tag == "" {
		return problem{}
	}
	return problem{
		ours:      true,
		tag:       p.Tag,
		message:   cmp.Or(p.Detail, p.Message, p.Title),
		committed: Committed(p.Committed),
		after:     milliseconds(p.RetryAfterMs),
	}
}

// wantsTLS is how net/http answers a plain request on a port with TLS.
var wantsTLS = []byte("Client sent an HTTP request to an HTTPS server")

// decode reads an answer. It accepts JSON that RFC 7493 forbids in payloads and
// results: duplicate names and escaped surrogate halves. Older producers write
// both, and JavaScript still does when it cuts a string.
func decode(body []byte, out any) error {
	return jsonv2.Unmarshal(body, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// answer is the body of an answer.
type answer struct {
	bytes []byte
	proto bool // in protobuf, else in JSON
}

var errProto = errors.New("is in protobuf")

// decode reads the answer into out.
func (a answer) decode(out any) error {
	if !a.proto {
		return decode(a.bytes, out)
	}
	if m, ok := out.(v1.Message); ok {
		return m.ParseProto(a.bytes, math.MaxInt)
	}
	return errProto
}

// encode returns the body of a request. Give it a pointer: the encoder copies a struct.
func encode(v any) ([]byte, error) {
	body, err := jsonv2.Marshal(v, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return body, nil
}

var errRaw = errors.New("is not valid JSON")

// encodeWith encodes v and appends the field name with the bytes of raw unchanged,
// because Marshal would remove white space. If raw is nil, the field is left out.
func encodeWith(v any, name string, raw json.RawMessage) ([]byte, error) {
	body, err := encode(v)
	if err != nil || raw == nil {
		return body, err
	}
	if err := checkRaw(name, raw); err != nil {
		return nil, err
	}
	return appendMember(body, name, raw), nil
}

// nestingMax is how deep objects and lists may nest in a payload or a result: parsers of JSON take 10 000 levels, with those of
// the request around it.
const nestingMax = 9_990

var errDeep = fmt.Errorf("nests objects and lists more than %d levels deep", nestingMax)

// checkRaw refuses a payload or a result that is not JSON, or cannot be within a request; nil is none.
func checkRaw(name string, raw json.RawMessage) error {
	switch {
	case raw != nil && !v1.ValidJSON(raw):
		return fmt.Errorf("%s %w", name, errRaw)
	case v1.TooDeep(raw, nestingMax) >= 0:
		return fmt.Errorf("%s %w", name, errDeep)
	}
	return nil
}

// appendMember appends a member to an object.
func appendMember(body []byte, name string, raw []byte) []byte {
	body = body[:len(body)-1]
	if len(body) > 1 {
		body = append(body, ',')
	}
	body = append(body, '"')
	body = append(body, name...)
	body = append(body, '"', ':')
	body = append(body, raw...)
	return append(body, '}')
}

// local returns the error of a call that was never sent.
func local(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedNo, Err: err, invalid: true}
}

// odd returns the error of a read whose answer does not come from an osqueue node.
func odd(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedNo, Err: err}
}

// oddWrite is like odd, for a write: a server that answered with success may have
// written something.
func oddWrite(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedUnknown, Err: err}
}

var (
	errNoID   = errors.New("the id is empty; give the id of a job")
	errNoName = errors.New("the name is empty")
)

// namePath returns the path of the resource name under prefix, or of an action on
// it.
func namePath(prefix, name, action string) (string, error) {
	switch {
	case name == "" && prefix == v1.PathJobs:
		return "", errNoID
	case name == "":
		return "", errNoName
	case name == "." || name == "..":
		return "", fmt.Errorf("the name %q cannot be used in a path", name)
	}
	path := prefix + "/" + url.PathEscape(name)
	if action != "" {
		path += "/" + action
	}
	return path, nil
}

// optional returns nil for "", which the wire format leaves out.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
