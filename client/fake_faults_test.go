package client

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
)

// The faults.

// cutAfter does what is asked and cuts the connection instead of answering.
func cutAfter(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	answer(httptest.NewRecorder())
	cut(w)
}

// cutBefore cuts the connection and does nothing.
func cutBefore(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) { cut(w) }

func cut(w http.ResponseWriter) {
	conn, _, err := w.(http.Hijacker).Hijack()
	if err == nil {
		conn.Close()
	}
}

// half does what is asked and breaks off in the middle of the answer.
func half(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	rec := httptest.NewRecorder()
	answer(rec)
	conn, buf, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(buf, "HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s", rec.Body.Len(), rec.Body.String()[:rec.Body.Len()/2])
	buf.Flush()
}

func garbage(_ *node, w http.ResponseWriter, _ *http.Request, answer func(http.ResponseWriter)) {
	answer(httptest.NewRecorder())
	io.WriteString(w, "<html>welcome to the hotel</html>")
}

// frozen does not answer until the test ends.
func frozen(n *node, _ http.ResponseWriter, r *http.Request, _ func(http.ResponseWriter)) {
	select {
	case <-n.stuck:
	case <-r.Context().Done():
	}
}

// refusing answers with a problem.
func refusing(status int, tag, committed string, retryMs int64) fault {
	return func(_ *node, w http.ResponseWriter, _ *http.Request, _ func(http.ResponseWriter)) {
		refuse(w, status, tag, committed, retryMs)
	}
}
