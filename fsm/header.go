package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// Header is a name and a value that a producer gives to the worker, such as the context of a
// trace. The machine decides nothing by headers. They are not part of the content by which a
// repeated enqueue is recognised: a caller that repeats it has another trace.
type Header struct {
	Name  string // HeaderName
	Value string // UTF-8
}

// The limits of headers.
const (
	HeadersMax     = 16
	HeaderNameMax  = 64   // bytes
	HeadersSizeMax = 4096 // bytes of all names and values of a job
)

var errHeaders = errors.New("headers have invalid names, are not sorted, or are too many or too large")

// HeaderName reports whether a header may have that name: 1 to HeaderNameMax of the characters
// a to z, 0 to 9, "-", "_" and ".".
func HeaderName(name string) bool {
	if name == "" || len(name) > HeaderNameMax {
		return false
	}
	for _, c := range []byte(name) {
		switch {
		case c >= 'a' && c <= 'z', c >= '0' && c <= '9', c == '-', c == '_', c == '.':
		default:
			return false
		}
	}
	return true
}

// checkHeaders refuses headers that no job can have.
func checkHeaders(headers []*fsmpb.Header) error {
	size, last := 0, ""
	for _, h := range headers {
		if !HeaderName(h.GetName()) || h.Name <= last || !utf8.ValidString(h.Value) {
			return errHeaders
		}
		size, last = size+len(h.Name)+len(h.Value), h.Name
	}
	if len(headers) > HeadersMax || size > HeadersSizeMax {
		return errHeaders
	}
	return nil
}

// headersToPB returns the headers of a record, nil for none.
func headersToPB(headers []Header) []*fsmpb.Header {
	var out []*fsmpb.Header
	for _, h := range headers {
		out = append(out, &fsmpb.Header{Name: h.Name, Value: h.Value})
	}
	return out
}

// headersFromPB copies the headers, which would keep a log entry in memory.
func headersFromPB(headers []*fsmpb.Header) []Header {
	var out []Header
	for _, h := range headers {
		out = append(out, Header{Name: strings.Clone(h.GetName()), Value: strings.Clone(h.GetValue())})
	}
	return out
}
