package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
)

// Answer is an http.ResponseWriter that keeps the answer. It is for one call, and
// not safe for concurrent use. Make it with NewAnswer.
type Answer struct {
	Status int // 0 until the head is written
	Body   bytes.Buffer
	header http.Header
}

// NewAnswer makes an answer that writes its head into header.
func NewAnswer(header http.Header) *Answer { return &Answer{header: header} }

// Reset prepares the answer for another call, and keeps the memory of the body.
func (a *Answer) Reset(header http.Header) {
	a.Status, a.header = 0, header
	a.Body.Reset()
}

// Result returns what was written.
func (a *Answer) Result() (status int, body []byte) { return a.Status, a.Body.Bytes() }

// Header implements http.ResponseWriter.
func (a *Answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *Answer) WriteHeader(status int) {
	if a.Status == 0 && status >= http.StatusOK { // 1xx come before the answer
		a.Status = status
	}
}

// Write implements http.ResponseWriter.
func (a *Answer) Write(b []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	return a.Body.Write(b)
}

// NewRequest makes a request with a JSON body, or none if body is empty, for the client with
// the address remote. target is an escaped path with its query.
func NewRequest(ctx context.Context, method, target, remote string, body []byte) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, target, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.RequestURI, r.RemoteAddr = target, remote
	if len(body) > 0 {
		r.Header["Content-Type"] = []string{"application/json"}
	}
	return r, nil
}

// Network opens the ports of a process and connects to those of others. The zero value is the network of
// the computer. Tests run whole nodes without sockets, in simulated time.
type Network struct {
	Open    func(network, address string) (net.Listener, error)
	Connect func(ctx context.Context, network, address string) (net.Conn, error)
}

// Listen opens a port.
func (n Network) Listen(network, address string) (net.Listener, error) {
	if n.Open != nil {
		return n.Open(network, address)
	}
	return net.Listen(network, address)
}

// Dial connects to a port, with dialer if it is one of the computer's network.
func (n Network) Dial(ctx context.Context, dialer *net.Dialer, network, address string) (net.Conn, error) {
	if n.Connect != nil {
		return n.Connect(ctx, network, address)
	}
	return dialer.DialContext(ctx, network, address)
}

// Start serves a listener in the background. The caller calls stop, which closes all connections.
func Start(server *http.Server, ln net.Listener) (stop func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = server.Serve(ln) // ends with Close
	}()
	return func() {
		_ = server.Close()
		<-done
	}
}

// Of calls h with r. It reports whether h answered completely.
func (a *Answer) Of(h http.Handler, r *http.Request) (whole bool) {
	return Serve(h, a, r) && a.Status != 0
}

// Serve calls h with w and r. It reports whether h answered completely: the connection to another
// node that answers may break.
func Serve(h http.Handler, w http.ResponseWriter, r *http.Request) (whole bool) {
	defer func() {
		if p := recover(); p != nil {
			if p != http.ErrAbortHandler { //nolint:errorlint // net/http does not wrap it
				panic(p)
			}
			whole = false
		}
	}()
	h.ServeHTTP(w, r)
	return true
}

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
	if failed, ok := errors.AsType[*url.Error](err); ok {
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
