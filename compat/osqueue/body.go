package osqueue

import (
	"bytes"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/compat"
)

// The HTTP API parses bodies more strictly than the legacy broker, which accepts
// whatever JavaScript parses. This file rewrites the fields of the bodies of the legacy routes that the two read
// differently. The other values stay as they are, byte for byte; a body that neither can parse stays for the API to refuse.
// Values that the legacy broker accepted by accident (numbers for names, text for
// numbers) are refused.

// nativeMembers are the fields of bodies that only the API has.
var nativeMembers = []string{
	"id", "priority", "runAt", "delayMs", "leaseMs", "backoff", "timeoutMs", "group", "tags", "uniqueKey", "uniqueScope",
	"uniqueMs", "after", "afterFailure", "batchId", "waitMs", "token",
}

// byteOrderMark may precede a body; the legacy broker skips it.
var byteOrderMark = []byte("\ufeff")

// translate returns the path and the body of the call for a submission, a claim or a report. An error comes from a call
// of the API.
func (h *Handler) translate(a *answer, body []byte) (path string, out []byte, err error) {
	path = a.r.URL.EscapedPath()
	body = validText(bytes.TrimPrefix(body, byteOrderMark))
	found, ok := membersOf(body)
	if !ok {
		return path, body, nil
	}
	edit := edits{members: found}
	edit.onlyLast()
	a.native = slices.ContainsFunc(nativeMembers, edit.has)
	switch path {
	case v1.PathJobs:
		edit.each("maxAttempts", wholeAttempts)
		edit.identify(newID())
	case v1.PathClaim:
		err = h.plainClaim(a, &edit)
	default:
		if !edit.has("token") && !edit.plainReport(path) { // with a token the caller uses the API's features
			path = v1.PathJobs + "/" + newID() + path[strings.LastIndexByte(path, '/'):]
		}
	}
	return path, edit.apply(body), err
}

// plainClaim makes the types of a claim those that the API accepts.
func (h *Handler) plainClaim(a *answer, edit *edits) error {
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
		return nil
	}
	types, err := h.native.narrow(caller{ctx: a.r.Context(), remote: a.r.RemoteAddr}, wide)
	if err == nil {
		edit.each("types", func(jsontext.Value) jsontext.Value { return textList(types) })
	}
	return err
}

// plainReport takes the name of a worker out of a report that no worker can have. It returns false if the report cannot
// be about a job: it goes to one that does not exist then.
func (e *edits) plainReport(path string) bool {
	stranger := false
	e.each("workerId", func(v jsontext.Value) jsontext.Value {
		if stranger = v.Kind() == jsontext.KindString && !canBeName(textOf(v, nameBytes+1)); stranger {
			return jsontext.Value(`""`)
		}
		return v
	})
	return !stranger && namesJob(path)
}

// namesJob reports whether a job can have the id in the path of a report.
func namesJob(path string) bool {
	id, _, _ := strings.Cut(strings.TrimPrefix(path, v1.PathJobs+"/"), "/")
	id, err := url.PathUnescape(id)
	return err != nil || len(id) <= idMax
}

// ofListed are the fields that a listed job has and a submission does not. A client that
// submits a listed job wants a new job: the id in the body is the old job's.
var ofListed = []string{"status", "attempts", "createdAt", "heartbeat"}

// identify gives a submission an id, unless it has its own.
func (e *edits) identify(id string) {
	quoted, listed := jsontext.Value(`"`+id+`"`), slices.ContainsFunc(ofListed, e.has)
	if !e.has("id") {
		e.members, e.made = append(e.members, member{name: "id", raw: jsontext.Value(`"id"`), value: quoted}), true
		return
	}
	e.each("id", func(v jsontext.Value) jsontext.Value {
		if listed || v.Kind() != jsontext.KindString || len(v) == len(`""`) {
			return quoted
		}
		return v
	})
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
	dec := jsontext.NewDecoder(bytes.NewBuffer(list), compat.Lenient)
	_, err := dec.ReadToken()
	for err == nil && dec.PeekKind() != jsontext.KindEndArray {
		var item jsontext.Value
		if item, err = dec.ReadValue(); err == nil {
			fn(item)
		}
	}
}

func textList(texts []string) jsontext.Value {
	list, err := json.Marshal(texts, compat.Lenient)
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
	dec := jsontext.NewDecoder(bytes.NewBuffer(body), compat.Lenient)
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
