package core

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"unicode/utf8"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// readHeaders checks the headers of a job and sorts them.
func readHeaders(in map[string]string) ([]*fsmpb.Header, error) {
	if len(in) == 0 {
		return nil, nil
	}
	if len(in) > fsm.HeadersMax {
		return nil, Bad("headers", "has %d names; a job may have at most %d", len(in), fsm.HeadersMax)
	}
	out, size := make([]*fsmpb.Header, 0, len(in)), 0
	for _, name := range slices.Sorted(maps.Keys(in)) {
		value := in[name]
		if !fsm.HeaderName(name) {
			return nil, Bad("headers", `has the name %q; must be 1 to %d of the characters a-z, 0-9, "-", "_" and "."`, Shown(name), fsm.HeaderNameMax)
		}
		if !utf8.ValidString(value) {
			return nil, Bad("headers."+name, "is not UTF-8")
		}
		size += len(name) + len(value)
		out = append(out, &fsmpb.Header{Name: name, Value: value})
	}
	if size > fsm.HeadersSizeMax {
		return nil, Bad("headers", "has %d bytes of names and values; a job may have at most %d", size, fsm.HeadersSizeMax)
	}
	return out, nil
}

// appendHeaders appends the headers of a job, or nothing if there are none.
func appendHeaders(b []byte, headers []fsm.Header) []byte {
	if len(headers) == 0 {
		return b
	}
	b = append(Key(b, "headers"), '{')
	for _, h := range headers {
		b = Text(b, h.Name, h.Value)
	}
	return append(b, '}')
}

// AppendNewHeaders is appendHeaders for a template.
func AppendNewHeaders(b []byte, headers []*fsmpb.Header) []byte {
	var of []fsm.Header
	for _, h := range headers {
		of = append(of, fsm.Header{Name: h.GetName(), Value: h.GetValue()})
	}
	return appendHeaders(b, of)
}

// withoutHeaders returns a body without the headers of its jobs, for the fingerprint of an
// idempotency key: a caller that repeats a write has another trace. A body without headers is
// returned as it is.
func withoutHeaders(body []byte) []byte {
	const member = "headers"
	if !bytes.Contains(body, strconv.AppendQuote(nil, member)) {
		return body
	}
	var root map[string]any
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	if d.Decode(&root) != nil {
		return body // the handler refuses it
	}
	strip := func(job any) {
		if job, ok := job.(map[string]any); ok {
			delete(job, member)
		}
	}
	strip(root)
	strip(root["job"])
	strip(root["callback"])
	if jobs, ok := root["jobs"].([]any); ok {
		for _, job := range jobs {
			strip(job)
		}
	}
	out, err := json.Marshal(root)
	if err != nil {
		return body
	}
	return out
}
