package api

import (
	"io"
	"net/http"
)

// unreadMax bounds the bytes of a refused body that are read.
const unreadMax = 16 << 20

// finishBody sends the answer and reads the rest of an HTTP/1 body that was refused. If a
// connection with unread bytes is closed, its client gets a reset, and can lose the answer that
// says why it was refused (RFC 9112, 9.6). net/http reads a short rest, or waits half a second
// before it closes; it does neither if the client asked to close the connection.
func finishBody(w http.ResponseWriter, r *http.Request) {
	if r.ProtoMajor != 1 || r.ContentLength == 0 || len(r.Header["Expect"]) > 0 {
		return
	}
	if _, err := w.Write(nil); err != nil { // a handler has taken the connection
		return
	}
	if r.ContentLength > 0 {
		if _, err := r.Body.Read(nil); err != nil { // it was read to its end
			return
		}
	}
	if http.NewResponseController(w).Flush() == nil {
		_, _ = io.CopyN(io.Discard, r.Body, unreadMax) // in the time that the server has for a body
	}
}
