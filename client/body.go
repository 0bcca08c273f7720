package client

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/api/v1"
)

// readProblem reads the body of an answer that is not 2xx. One that is no
// problem of an osqueue node gives a problem that says nothing.
func readProblem(body []byte) problem {
	var p v1.Problem
	if err := json.Unmarshal(body, &p); err != nil || p.Tag == "" {
		return problem{}
	}
	return problem{
		ours:      true,
		tag:       p.Tag,
		message:   firstText(p.Detail, p.Message, p.Title),
		committed: Committed(p.Committed),
		after:     milliseconds(p.RetryAfterMs),
	}
}

func firstText(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// decode reads an answer. The payloads and results in it may hold what RFC 7493
// forbids: names that occur twice, and escaped halves of surrogate pairs. Older
// producers write both, and JavaScript still does when it cuts a text.
func decode(body []byte, out any) error {
	return json.Unmarshal(body, out, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// encode makes a request's body.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v, jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encode the request: %w", err)
	}
	return body, nil
}

var errRaw = errors.New("is not valid JSON")

// encodeWith is encode, with one more member at the end that is written byte
// for byte; nil: without it. Marshal would take the white space out of it.
func encodeWith(v any, name string, raw jsontext.Value) ([]byte, error) {
	body, err := encode(v)
	if err != nil || raw == nil {
		return body, err
	}
	if !raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return nil, fmt.Errorf("%s %w", name, errRaw)
	}
	body = body[:len(body)-1]
	if len(body) > 1 {
		body = append(body, ',')
	}
	body = append(body, '"')
	body = append(body, name...)
	body = append(body, '"', ':')
	body = append(body, raw...)
	return append(body, '}'), nil
}

// local is the error of a call that was never sent.
func local(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedNo, Err: err, invalid: true}
}

// odd is the error of a read whose answer is none of osqueue's.
func odd(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedNo, Err: err}
}

// oddWrite is odd for a write: who answered success may have done something.
func oddWrite(op string, err error) error {
	return &Error{Op: op, Message: err.Error(), Committed: CommittedUnknown, Err: err}
}

var (
	errNoID   = errors.New("an id is needed")
	errNoName = errors.New("a name is needed")
)

// jobPath is the path of a job, or of an action on it.
func jobPath(id string, action string) (string, error) {
	if id == "" {
		return "", errNoID
	}
	return namePath(v1.PathJobs, id, action)
}

// namePath is the path of what bears that name under prefix, or of an action on
// it.
func namePath(prefix, name, action string) (string, error) {
	switch name {
	case "":
		return "", errNoName
	case ".", "..":
		return "", fmt.Errorf("%q cannot be a segment of a path", name)
	}
	path := prefix + "/" + url.PathEscape(name)
	if action != "" {
		path += "/" + action
	}
	return path, nil
}

// optional is nil for "", which the wire leaves out.
func optional(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}
