// Package peeranswer writes and reads the answers to requests between nodes, and between a
// node and a machine that joins. They are JSON: the value that was asked for with a status of
// 2xx, or else a Refusal.
package peeranswer

import (
	"bytes"
	"encoding/json"
	"net/http"
)

// Refusal is the body of an answer that refuses a request.
type Refusal struct {
	Message string `json:"message"`
	Leader  string `json:"leader,omitempty"` // HTTP address of the leader, with a status of 421
}

// Write answers with the JSON of v.
func Write(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // if the answer does not arrive, the caller asks again
}

// Read returns the refusal in a body. The body of another program is the message.
func Read(body []byte) Refusal {
	var r Refusal
	if err := json.Unmarshal(body, &r); err != nil || r.Message == "" {
		r.Message = string(bytes.TrimSpace(body))
	}
	return r
}
