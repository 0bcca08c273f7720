package osqueue

import (
	"bytes"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
)

// The HTTP API parses bodies more strictly than the legacy broker, which accepts
// whatever JavaScript parses. This file parses the bodies of the legacy routes first and
// rewrites the fields that the two read differently. A body that the API accepts stays
// as it is, byte for byte; a body that neither can parse stays for the API to refuse.
// Values that the legacy broker accepted by accident (numbers for names, text for
// numbers) are refused.

// reread replaces the body of a request by one that the API reads as the legacy broker
// did. read reports that the body was parsed and is within the limit; native reports
// that the caller uses features of the API. A request with an idempotency key or with
// strict handling is native, and its body stays as it is: a repetition must have the
// same bytes.
func (h *Handler) reread(r *http.Request, held *limit.Hold) (read, native bool, err error) {
	if r.Header.Get(v1.HeaderIdempotencyKey) != "" || slices.ContainsFunc(r.Header["Prefer"], isStrict) {
		return false, true, nil
	}
	if r.Body == nil {
		return false, false, nil
	}
	body, whole := wholeBody(r, h.cfg.MaxBody, held)
	if !whole {
		return false, false, nil
	}
	if body, native, err = h.translate(r, body); err != nil {
		return false, native, err
	}
	r.Body = reader{bytes.NewReader(body), r.Body}
	r.ContentLength, r.TransferEncoding = int64(len(body)), nil
	return true, native, nil
}

// nativeMembers are the fields of bodies that only the API has.
var nativeMembers = []string{
	"id", "priority", "runAt", "delayMs", "leaseMs", "backoff", "timeoutMs", "group", "tags", "uniqueKey", "uniqueScope",
	"uniqueMs", "after", "afterFailure", "batchId", "waitMs", "token",
}

// isStrict reports whether a Prefer header asks for strict handling.
func isStrict(prefer string) bool { return strings.Contains(strings.ToLower(prefer), v1.PreferStrict) }

// wholeBody reads the body of a request. If the body breaks off or exceeds the limit, it
// puts the bytes back in front of the request's body and returns false.
func wholeBody(r *http.Request, limit int64, held *limit.Hold) (body []byte, whole bool) {
	if r.ContentLength > limit { // the announced bytes may never arrive
		return nil, false
	}
	body, err := held.ReadAll(io.LimitReader(r.Body, limit+1))
	switch {
	case err != nil:
		r.Body = reader{io.MultiReader(bytes.NewReader(body), failing{err}), r.Body}
	case int64(len(body)) > limit:
		r.Body = reader{io.MultiReader(bytes.NewReader(body), r.Body), r.Body}
	default:
		return body, true
	}
	return nil, false
}

// A reader reads from one source and closes another.
type reader struct {
	io.Reader
	io.Closer
}

// failing is a reader that returns err.
type failing struct{ err error }

// Read implements io.Reader.
func (f failing) Read([]byte) (int, error) { return 0, f.err }

// byteOrderMark may precede a body; the legacy broker skips it.
var byteOrderMark = []byte("\ufeff")

// translate returns the body for the API, and whether it has fields that only the API
// knows. An error comes from a call of the API.
func (h *Handler) translate(r *http.Request, body []byte) (out []byte, native bool, err error) {
	if plain, ok := scanPlain(r.URL.Path, body); ok && len(r.URL.EscapedPath()) <= idMax {
		if r.URL.Path == v1.PathJobs {
			body = plain.submission(body, newID())
		}
		return body, plain.native, nil
	}
	return h.parsed(r, body)
}

// parsed is translate for any body.
func (h *Handler) parsed(r *http.Request, body []byte) (out []byte, native bool, err error) {
	body = validText(bytes.TrimPrefix(body, byteOrderMark))
	var edit edits
	if found, ok := membersOf(body); ok {
		edit = edits{members: found}
		edit.onlyLast()
	}
	native = slices.ContainsFunc(nativeMembers, edit.has)
	out, err = h.edited(r, body, &edit)
	return out, native, err
}

// edited returns the body with the changes that the route needs.
func (h *Handler) edited(r *http.Request, body []byte, edit *edits) ([]byte, error) {
	switch r.URL.Path {
	case v1.PathJobs:
		edit.each("maxAttempts", wholeAttempts)
		return withID(edit.apply(body), newID()), nil
	case v1.PathClaim:
		var wide []string
		edit.each("types", func(v jsontext.Value) jsontext.Value {
			plain, types := plainTypes(v)
			if len(types) > claimTypes {
				wide = types
			}
			return plain
		})
		// A claim that waits may wait for jobs of types that have none yet.
		if wide == nil || edit.has("waitMs") {
			return edit.apply(body), nil
		}
		types, err := h.native.narrow(caller{ctx: r.Context(), remote: r.RemoteAddr}, wide)
		if err != nil {
			return nil, err
		}
		edit.each("types", func(jsontext.Value) jsontext.Value { return textList(types) })
		return edit.apply(body), nil
	}
	if edit.has("token") {
		return edit.apply(body), nil // the caller uses the API's features
	}
	stranger := false
	edit.each("workerId", func(v jsontext.Value) jsontext.Value {
		if stranger = v.Kind() == jsontext.KindString && !canBeName(textOf(v, nameBytes+1)); stranger {
			return jsontext.Value(`""`)
		}
		return v
	})
	if stranger || !namesJob(r.URL) {
		nowhere(r)
	}
	return edit.apply(body), nil
}

// namesJob reports whether a job can have the id in the path of a report.
func namesJob(u *url.URL) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(u.EscapedPath(), v1.PathJobs+"/"), "/")
	id, err := url.PathUnescape(id)
	return err != nil || len(id) <= idMax
}

// nowhere redirects a report to a job that does not exist.
func nowhere(r *http.Request) {
	path := r.URL.EscapedPath()
	target := *r.URL
	target.Path, target.RawPath = v1.PathJobs+"/"+newID()+path[strings.LastIndexByte(path, '/'):], ""
	r.URL, r.RequestURI = &target, target.RequestURI()
}

// wholeAttempts converts any number to a limit of attempts that the API accepts.
func wholeAttempts(v jsontext.Value) jsontext.Value {
	if v.Kind() != jsontext.KindNumber {
		return v
	}
	if _, err := strconv.ParseInt(string(v), 10, 32); err == nil && v[0] != '-' {
		return v
	}
	limit, _ := strconv.ParseFloat(string(v), 64) // a number that is too large becomes infinite
	return strconv.AppendInt(nil, int64(*attempts(&limit)), 10)
}

// plainTypes converts a list of types for the API and returns its entries. An entry
// that is not text matches no job.
func plainTypes(v jsontext.Value) (plain jsontext.Value, types []string) {
	if v.Kind() != jsontext.KindBeginArray {
		return v, nil
	}
	var f filter
	same := true
	eachItem(v, func(item jsontext.Value) {
		name := ""
		if item.Kind() == jsontext.KindString {
			name = textOf(item, nameBytes+1)
		}
		same = f.add(name) && same
	})
	if same {
		return v, f.types
	}
	return textList(f.all()), f.types
}

// eachItem calls fn with each item of a valid list.
func eachItem(list jsontext.Value, fn func(jsontext.Value)) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(list), lenient)
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != jsontext.KindEndArray {
		var item jsontext.Value
		if item, err = dec.ReadValue(); err == nil {
			fn(item)
		}
	}
}

func textList(texts []string) jsontext.Value {
	list, err := json.Marshal(texts, lenient)
	if err != nil { // cannot happen: any text can be encoded
		return jsontext.Value("[]")
	}
	return list
}

// A member is one field of a body.
type member struct {
	name       string
	raw, value jsontext.Value // raw is the name as it was sent
}

// membersOf returns the fields of a JSON object in order, and false if body is anything
// else.
func membersOf(body []byte) (found []member, ok bool) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), lenient)
	token, err := dec.ReadToken()
	if err != nil || token.Kind() != jsontext.KindBeginObject {
		return nil, false
	}
	for dec.PeekKind() == jsontext.KindString {
		var m member
		if m.raw, err = place(dec, body); err != nil {
			return nil, false
		}
		if m.value, err = place(dec, body); err != nil {
			return nil, false
		}
		m.name = textOf(m.raw, len(m.raw))
		found = append(found, m)
	}
	if token, err = dec.ReadToken(); err != nil || token.Kind() != jsontext.KindEndObject {
		return nil, false
	}
	_, err = dec.ReadToken()
	return found, err == io.EOF //nolint:errorlint // the decoder returns it as it is
}

// place returns the bytes of the next value in body. The decoder's own result is
// overwritten by the next call.
func place(dec *jsontext.Decoder, body []byte) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	end := dec.InputOffset()
	return jsontext.Value(body[end-int64(len(v)) : end]), err
}

// edits are the fields of a body and the changes to them.
type edits struct {
	members []member
	made    bool // at least one field has changed
}

// onlyLast keeps the last of several fields with one name, as JavaScript does.
func (e *edits) onlyLast() {
	if len(e.members) < 2 {
		return
	}
	last := make(map[string]int, len(e.members))
	for i := range e.members {
		last[e.members[i].name] = i
	}
	if len(last) == len(e.members) {
		return
	}
	var kept []member
	for i := range e.members {
		if m := e.members[i]; last[m.name] == i {
			kept = append(kept, m)
		}
	}
	e.members, e.made = kept, true
}

// has reports whether a field with the name exists.
func (e *edits) has(name string) bool {
	return slices.ContainsFunc(e.members, func(m member) bool { return m.name == name })
}

// each replaces the values of the fields with the name.
func (e *edits) each(name string, by func(jsontext.Value) jsontext.Value) {
	for i := range e.members {
		m := &e.members[i]
		if m.name != name {
			continue
		}
		if v := by(m.value); !bytes.Equal(v, m.value) {
			m.value, e.made = v, true
		}
	}
}

// apply returns the body with the changes.
func (e *edits) apply(body []byte) []byte {
	if !e.made {
		return body
	}
	out := append(make([]byte, 0, len(body)), '{')
	for i := range e.members {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, e.members[i].raw...), ':'), e.members[i].value...)
	}
	return append(out, '}')
}
