package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"osqueue/fsm/fsmpb"
)

// A header is a name and a value, UTF-8, that a producer gives to the worker, such as the context
// of a trace. The machine decides nothing by headers. They are not part of the content by which a
// repeated enqueue is recognised: a caller that repeats it has another trace.

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
	return name != "" && len(name) <= HeaderNameMax && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789-_.") == ""
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

// cloneHeaders copies the headers, which would keep a log entry in memory.
func cloneHeaders(headers []*fsmpb.Header) (out []*fsmpb.Header) {
	for _, h := range headers {
		out = append(out, &fsmpb.Header{Name: strings.Clone(h.GetName()), Value: strings.Clone(h.GetValue())})
	}
	return out
}
