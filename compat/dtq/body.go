package dtq

import (
	"bytes"
	"errors"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/internal/limit"
)

// call is one request of a client.
type call struct {
	w    http.ResponseWriter
	r    *http.Request
	max  int64 // bytes of the body
	held limit.Hold
}

// body has the fields of all request bodies. No field is required, each can be any
// JSON value, and a route ignores the fields that it does not use.
type body struct {
	TaskType jsontext.Value `json:"task_type"`
	Payload  jsontext.Value `json:"payload"`
	TaskID   jsontext.Value `json:"task_id"`
	Result   jsontext.Value `json:"result"`
	WorkerID jsontext.Value `json:"worker_id"`
	// The fields of raft_message.
	Type      jsontext.Value `json:"type"`
	Candidate jsontext.Value `json:"candidate_id"`
	Leader    jsontext.Value `json:"leader_id"`
}

// read reads the body of the request. It returns either the body or a refusal.
func (c *call) read() (*body, *reply) {
	if !isJSON(c.r.Header.Get("Content-Type")) {
		return nil, refusal(http.StatusBadRequest, "the content type is not JSON; send Content-Type: application/json")
	}
	data, err := c.held.ReadAll(http.MaxBytesReader(c.w, c.r.Body, c.max))
	if tooLarge := new(http.MaxBytesError); errors.As(err, &tooLarge) {
		return nil, refusal(http.StatusRequestEntityTooLarge, "the body is too large")
	}
	if errors.Is(err, limit.ErrOver) {
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

// isJSON reports whether a content type is application/json or ends in +json. It
// ignores parameters.
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

// byteOrderMark may precede a body; dtq skips it too.
var byteOrderMark = []byte("\ufeff")

// decode reads a JSON object. If a field occurs several times, the last one counts. An
// absent field is null.
func decode(data []byte) (*body, error) {
	data = bytes.TrimPrefix(data, byteOrderMark)
	if !utf8.Valid(data) || !jsontext.Value(data).IsValid(lenient) {
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

// textOf returns the text of a JSON string, and false for any other value.
func textOf(v jsontext.Value) (text string, ok bool) {
	if v.Kind() != '"' {
		return "", false
	}
	err := json.Unmarshal(v, &text, lenient)
	return text, err == nil
}
