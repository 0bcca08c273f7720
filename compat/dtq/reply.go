package dtq

import (
	"net/http"
	"strconv"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
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
