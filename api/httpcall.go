package api

import (
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
)

// httpCall is a call over HTTP. It is also the ResponseWriter of handlers that write their answers themselves: it
// records that the answer has begun.
type httpCall struct {
	http.ResponseWriter
	call
	server *Server
	r      *http.Request
}

var httpCalls = sync.Pool{New: func() any { return new(httpCall) }}

// endpoint answers the requests of one route.
type endpoint struct {
	s     *Server
	route *route
}

func (s *Server) handler(rt *route) http.Handler { return &endpoint{s, rt} }

// ServeHTTP answers a request whose path has no variable.
func (e *endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) { e.serve(w, r, "") }

// serve answers a request. object is the variable in its path, escaped.
func (e *endpoint) serve(w http.ResponseWriter, r *http.Request, object string) {
	h := httpCalls.Get().(*httpCall)
	h.ResponseWriter, h.server, h.r = w, e.s, r
	h.begin(r.Context(), e.s.Core, e.route, h)
	h.asked = askedOver(r, object)
	sound := false
	defer func() {
		h.held.Release()
		if sound { // a handler that panicked may have left h anywhere
			h.reset()
			h.ResponseWriter, h.r = nil, nil
			httpCalls.Put(h)
		}
	}()
	sound = e.s.do(&h.call)
	h.encode()
}

// askedOver reads the head of a request.
func askedOver(r *http.Request, object string) asked {
	return asked{
		method: r.Method, path: r.URL.EscapedPath(), rawQuery: r.URL.RawQuery, object: object,
		keys: r.Header[headerKey], prefer: r.Header["Prefer"], remote: r.RemoteAddr, from: addressOf(r),
		forwardedBy: r.Header[v1.HeaderForwarded], traceparent: first(r.Header[headerTraceparent]),
		requestID: first(r.Header["X-Request-Id"]), legacy: IsLegacy(r), inner: r.Context().Value(withinKey{}) != nil,
	}
}

var jsonType = []string{"application/json; charset=utf-8"}

// headerLSN is v1.HeaderLSN, for direct access to a header.
const headerLSN = "Osqueue-Lsn"

// lengthFrom is the size from which net/http does not determine the length of an answer by
// itself.
const lengthFrom = 2048

// encode sends the answer.
func (h *httpCall) encode() {
	switch {
	case h.broken:
		panic(http.ErrAbortHandler) // half an answer must not look like a whole one
	case !h.ready:
		return
	case !h.begun:
		h.head()
	}
	if len(h.out) > 0 {
		_, _ = h.ResponseWriter.Write(h.out) // the client may have disconnected; the state has changed
	}
}

// head sends the head of an answer.
func (h *httpCall) head() {
	a, header := &h.answered, h.Header()
	switch {
	case a.fault != nil:
		header["Content-Type"], header["Content-Length"] = problemType, []string{strconv.Itoa(len(a.out))}
		if a.fault.retry > 0 {
			header["Retry-After"] = []string{strconv.FormatInt(int64((a.fault.retry+time.Second-1)/time.Second), 10)}
		}
	case a.status != http.StatusNoContent:
		header["Content-Type"] = jsonType
		if a.ready && len(a.out) >= lengthFrom {
			header["Content-Length"] = []string{strconv.Itoa(len(a.out))}
		}
	}
	if !a.lsn.IsZero() {
		header[headerLSN] = h.s.lsnHeader(a.lsn)
	}
	if a.committed != "" {
		header[headerCommitted] = ackValues[a.committed]
	}
	if a.replayed {
		header[headerReplayed] = yes
	}
	if a.followed {
		header["Preference-Applied"] = preferStrict
	}
	if a.challenge {
		header["Www-Authenticate"] = []string{`Bearer realm="osqueue"`}
	}
	a.begun = true
	h.ResponseWriter.WriteHeader(a.status)
}

var (
	yes          = []string{"true"}
	problemType  = []string{v1.MediaTypeProblem}
	ackValues    = map[string][]string{v1.AckQuorum: {v1.AckQuorum}, v1.AckObject: {v1.AckObject}}
	preferStrict = []string{v1.PreferStrict}
)

// WriteHeader records the status of an answer that its handler writes.
func (h *httpCall) WriteHeader(status int) {
	if !h.begun && status >= http.StatusOK { // 1xx come before the answer
		h.status, h.begun = status, true
	}
	h.ResponseWriter.WriteHeader(status)
}

// Write records the implicit status.
func (h *httpCall) Write(b []byte) (int, error) {
	if !h.begun {
		h.status, h.begun = http.StatusOK, true
	}
	return h.ResponseWriter.Write(b)
}

// Unwrap implements the interface of http.ResponseController.
func (h *httpCall) Unwrap() http.ResponseWriter { return h.ResponseWriter }

// credential implements peer.
func (h *httpCall) credential() *credential { return h.server.credentialOf(h.r) }

// body implements peer.
func (h *httpCall) body() (io.ReadCloser, int64) { return h.r.Body, h.r.ContentLength }

// sendPart implements peer.
func (h *httpCall) sendPart() error {
	if !h.begun {
		h.head()
	}
	_, err := h.ResponseWriter.Write(h.out)
	h.out = h.out[:0]
	return err
}

// mergePatch is the media type of PATCH bodies by RFC 7396.
const mergePatch = "application/merge-patch+json"

// checkMedia implements peer. It requires JSON in UTF-8.
func (h *httpCall) checkMedia() error {
	if coding := h.r.Header.Get("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
		return fail(mediaType, "the body has the content encoding %q; send it without one", shown(coding))
	}
	given := h.r.Header.Get("Content-Type")
	if given == "application/json" {
		return nil
	}
	if given == "" {
		return fail(mediaType, "the request has no content type; send Content-Type: application/json")
	}
	media, params, err := mime.ParseMediaType(given)
	patch := media == mergePatch && h.r.Method == http.MethodPatch
	if err != nil || media != "application/json" && !patch {
		return fail(mediaType, "the content type is %q; send Content-Type: application/json", shown(given))
	}
	if charset, named := params["charset"]; named && !isUTF8(charset) {
		return fail(mediaType, "the charset is %q; send JSON in UTF-8", shown(charset))
	}
	return nil
}

// isUTF8 reports whether text in a charset is UTF-8.
func isUTF8(charset string) bool {
	for _, name := range []string{"utf-8", "utf8", "us-ascii", "ascii"} {
		if strings.EqualFold(charset, name) {
			return true
		}
	}
	return false
}

// holdOff implements peer. The read deadline does no harm: net/http lifts it when the body has been read.
func (h *httpCall) holdOff(wait time.Duration) {
	// Not every ResponseWriter supports this; then it has no deadline either.
	_ = http.NewResponseController(h.ResponseWriter).SetWriteDeadline(time.Now().Add(wait + h.s.cfg.Timeouts.Answer))
}

// exchange implements peer.
func (h *httpCall) exchange() (http.ResponseWriter, *http.Request) { return h, h.r }

// lsnHeader is an LSN as the value of a header.
type lsnHeader struct {
	lsn   fsm.LSN
	value [1]string
}

// lsnHeader returns the value of the header for an LSN, which must not be changed. The answers of
// one committed entry share it.
func (s *Core) lsnHeader(lsn fsm.LSN) []string {
	last := s.lastLSN.Load()
	if last == nil || last.lsn != lsn {
		last = &lsnHeader{lsn, [1]string{lsn.String()}}
		s.lastLSN.Store(last)
	}
	return last.value[:]
}

// over makes a handler of one that needs the request over HTTP, which no other front end has.
func over(handle func(*httpCall) error) func(*call) error {
	return func(c *call) error { return handle(c.peer.(*httpCall)) }
}
