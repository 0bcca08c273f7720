package web

import (
	"bytes"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
)

// Refusal is the body of an answer that refuses a request between nodes.
type Refusal struct {
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"` // HTTP address of the leader, with a status of 421
}

// WriteJSON answers with the JSON of v.
func WriteJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // if the answer does not arrive, the caller asks again
}

// Do sends a request to a node. Its error does not have the URL, whose scheme is http although the
// connections between nodes may have TLS.
func Do(client *http.Client, req *http.Request) (*http.Response, error) {
	resp, err := client.Do(req)
	var failed *url.Error
	if errors.As(err, &failed) {
		err = failed.Err
	}
	return resp, err
}

// ReadRefusal returns the refusal in a body. The body of another program is the message.
func ReadRefusal(body []byte) Refusal {
	var r Refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Message == "" {
		r.Message = string(bytes.TrimSpace(body))
	}
	return r
}
