package dtq

import (
	"bytes"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/internal/inflight"
)

// call is one request of a client.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	max  int64 // bytes of the body
	held inflight.Hold
}

// body is what bodies can have. Nothing is required, everything can be any JSON,
// and what a route does not know is ignored.
type body struct {
	TaskType jsontext.Value `json:"task_type"`
	Payload  jsontext.Value `json:"payload"`
	TaskID   jsontext.Value `json:"task_id"`
	Result   jsontext.Value `json:"result"`
	WorkerID jsontext.Value `json:"worker_id"`
	// Of raft_message.
	Type      jsontext.Value `json:"type"`
	Candidate jsontext.Value `json:"candidate_id"`
	Leader    jsontext.Value `json:"leader_id"`
}

// read reads the body of the request, or says why it is refused.
func (c *call) read() (*body, *reply) {
	if !isJSON(c.r.Header.Get("Content-Type")) {
		return nil, refusal(http.StatusBadRequest, "the content type is not JSON; send Content-Type: application/json")
	}
	data, err := io.ReadAll(c.held.Reader(http.MaxBytesReader(c.w, c.r.Body, c.max)))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, refusal(http.StatusRequestEntityTooLarge, "the body is too large")
	}
	if errors.Is(err, inflight.ErrOver) {
		return nil, refusal(http.StatusServiceUnavailable, err.Error())
	}
	if err != nil {
		return nil, refusal(http.StatusBadRequest, "the body did not arrive")
	}
	in, err := decode(data)
	if err != nil {
		return nil, refusal(http.StatusBadRequest, err.Error())
	}
	return in, nil
}

// isJSON is for application/json and what is built on it, whatever the parameters.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil && !errors.Is(err, mime.ErrInvalidMediaParameter) {
		return false
	}
	return media == "application/json" || strings.HasPrefix(media, "application/") && strings.HasSuffix(media, "+json")
}

var (
	errNotJSON   = errors.New("the body is not JSON")
	errNotObject = errors.New("the body must be a JSON object")
)

// byteOrderMark is what the original skips before a body.
var byteOrderMark = []byte("\ufeff")

// decode reads a JSON object. Of a member that is there several times the last one
// counts. What is absent is null.
func decode(data []byte) (*body, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if !utf8.Valid(data) {
		return nil, errNotJSON
	}
	if !jsontext.Value(data).IsValid(lenient) {
		return nil, errNotJSON
	}
	in := new(body)
	if jsontext.Value(data).Kind() != '{' {
		return nil, errNotObject
	}
	if err := json.Unmarshal(data, in, lenient); err != nil {
		return nil, errNotJSON
	}
	for _, v := range []*jsontext.Value{
		&in.TaskType, &in.Payload, &in.TaskID, &in.Result, &in.WorkerID, &in.Type, &in.Candidate, &in.Leader,
	} {
		if *v == nil {
			*v = jsontext.Value("null")
		}
	}
	return in, nil
}

// textOf is a value that is text.
func textOf(v jsontext.Value) (text string, ok bool) {
	if v.Kind() != '"' {
		return "", false
	}
	err := json.Unmarshal(v, &text, lenient)
	return text, err == nil
}
