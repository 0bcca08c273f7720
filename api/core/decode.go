package core

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/limit"
)

// Lenient accepts JSON that RFC 7493 forbids in payloads: duplicate names and
// escaped surrogate halves, which older producers write. Bytes that are not UTF-8
// are refused before.
var Lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// namesOnce are the options of the first reading of a body. Duplicate names are
// rare, so the body is read again only then, to find out whether they are in a
// payload.
var namesOnce = jsontext.AllowInvalidUTF8(true)

// Decode reads the body of the request into v, a pointer to a struct of
// package v1. It must be an object. A v1.Message may be in protobuf.
func (c *Call) Decode(v any) error {
	m, known := v.(v1.Message)
	proto := known && c.inProto()
	if err := c.checkMedia(proto); err != nil {
		return err
	}
	if err := c.ReadBody(); err != nil {
		return err
	}
	var err error
	if proto {
		err = c.parseProto(m, c.In)
	} else {
		err = c.parse(v)
	}
	if err == nil && known && c.Key != "" {
		err = c.keepSame(m)
	}
	return err
}

// keepSame keeps the form of m for the fingerprint of a request: its JSON, without what protobuf does not tell apart from it,
// such as empty lists.
func (c *Call) keepSame(m v1.Message) error {
	b, _ := m.AppendProto(nil) // m comes from a body in UTF-8
	if err := c.parseProto(m, b); err != nil {
		return err
	}
	c.same, _ = m.AppendJSON(nil)
	return nil
}

// inProto reports whether the body is in protobuf, and so the answer.
func (c *Call) inProto() bool { return c.ContentType == v1.MediaTypeProtobuf }

// parseProto is parse for protobuf. The same texts, numbers and payloads are refused.
func (c *Call) parseProto(m v1.Message, b []byte) error {
	err := m.ParseProto(b, c.Core.Config.Limits.Depth)
	wrong, ok := errors.AsType[*v1.FieldError](err)
	switch {
	case !ok:
		return err
	case wrong.TooMany:
		return Fail(tooLarge, "%s %s", memberName(wrong.Pointer), wrong.Problem)
	}
	return named(wrong.Pointer, "%s", wrong.Problem)
}

// mergePatch is the media type of PATCH bodies by RFC 7396.
const mergePatch = "application/merge-patch+json"

// checkMedia refuses a body that is not JSON in UTF-8, nor protobuf if the call takes that.
func (c *Call) checkMedia(proto bool) error {
	if coding := c.Encoding; coding != "" && !strings.EqualFold(coding, "identity") {
		return Fail(MediaType, "the body has the content encoding %q; send it without one", Shown(coding))
	}
	given := c.ContentType
	if given == "application/json" || proto {
		return nil
	}
	if given == "" {
		return Fail(MediaType, "the request has no content type; send Content-Type: application/json")
	}
	media, params, err := mime.ParseMediaType(given)
	patch := media == mergePatch && c.Method == http.MethodPatch
	if err != nil || media != "application/json" && !patch {
		return Fail(MediaType, "the content type is %q; send Content-Type: application/json", Shown(given))
	}
	if charset, named := params["charset"]; named && !slices.Contains([]string{"utf-8", "utf8", "us-ascii", "ascii"}, strings.ToLower(charset)) {
		return Fail(MediaType, "the charset is %q; send JSON in UTF-8", Shown(charset))
	}
	return nil
}

// DecodeOptional is Decode for a body that may be absent; v is zero then.
func (c *Call) DecodeOptional(v any) error {
	if err := c.ReadBody(); err != nil {
		return err
	}
	if len(bytes.TrimLeft(c.In, " \t\r\n")) == 0 {
		return nil
	}
	return c.Decode(v)
}

func (c *Call) parse(v any) error {
	body := c.In
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) == 0 {
		return Fail(BadRequest, "the body is empty; send a JSON object, at least {}")
	} else if start[0] != '{' {
		return Fail(BadRequest, "the body must be a JSON object")
	}
	if !utf8.Valid(body) {
		return Fail(BadRequest, "the body is not UTF-8 (at %s)", place(body, invalidAt(body)))
	}
	if at := v1.TooDeep(body, c.Core.Config.Limits.Depth); at >= 0 {
		return named(memberAt(body, at), "nests objects and lists more than %d levels deep (at %s)",
			c.Core.Config.Limits.Depth, place(body, at))
	}
	c.empty(v)
	known := json.RejectUnknownMembers(c.refusesUnknown())
	err := json.Unmarshal(body, v, namesOnce, known)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		if err := repeatedMembers(body, reflect.TypeOf(v)); err != nil {
			return err
		}
		c.empty(v)
		err = json.Unmarshal(body, v, Lenient, known)
	}
	if err != nil {
		return badJSON(body, v, err)
	}
	return nil
}

// empty sets v to its zero value. The busy lists get room for their items: a list that grows copies them several times.
func (c *Call) empty(v any) {
	if b, ok := v.(*v1.Batch); ok && cap(b.Jobs) > 0 {
		b.Jobs = b.Jobs[:0] // whose items are zero
		return
	}
	reflect.ValueOf(v).Elem().SetZero()
	count := func(member string) int { return min(bytes.Count(c.In, []byte(member)), c.Core.Config.Limits.BatchJobs) }
	switch v := v.(type) {
	case *v1.Batch:
		v.Jobs = make([]v1.NewJob, 0, count(`"type"`))
	case *v1.CompleteBatch:
		v.Jobs = make([]v1.CompleteLease, 0, count(`"jobId"`))
	}
}

// refusesUnknown reports whether a body must not have fields that the API does not
// know.
func (c *Call) refusesUnknown() bool {
	if c.Strict || c.Route == nil {
		return c.Strict
	}
	return !c.Route.Lenient && !strings.EqualFold(preference(c.Prefer, "handling"), "lenient")
}

// ReadBody reads the body into c.in up to its end: net/http detects a disconnected client only
// after that.
func (c *Call) ReadBody() error {
	if c.isRead {
		return nil
	}
	limit := c.bodyLimit()
	body, length := c.Peer.Body()
	if length > limit {
		return BodyTooLarge(limit)
	}
	c.In = c.In[:0]
	// The announced bytes may never arrive. One byte more shows the end without another step.
	c.In = slices.Grow(c.In, int(min(max(length, 0), firstBytes))+1)
	held := 0
	for {
		n, err := body.Read(c.In[len(c.In):cap(c.In)])
		c.In = c.In[:len(c.In)+n]
		if over := c.Held.Take(usedOf(c.In) - held); over != nil {
			return BrokenBody(over, limit)
		}
		held = usedOf(c.In)
		switch {
		case int64(len(c.In)) > limit:
			return BodyTooLarge(limit)
		case errors.Is(err, io.EOF):
			c.isRead = true
			_ = body.Close() // or else net/http looks for more before it writes the answer
			return nil
		case err != nil:
			return BrokenBody(err, limit)
		case len(c.In) == cap(c.In):
			// The memory counts now: the bytes for it may never arrive.
			more := len(c.In)
			if left := length + 1 - int64(more); left > 0 {
				more = min(more, int(left))
			}
			c.In = slices.Grow(c.In, more)
			if over := c.Held.Take(usedOf(c.In) - held); over != nil {
				return BrokenBody(over, limit)
			}
			held = usedOf(c.In)
		}
	}
}

// usedOf returns the bytes of a buffer that count against the budget. A small buffer is used again.
func usedOf(b []byte) int {
	if cap(b) > keptBytes {
		return cap(b)
	}
	return len(b)
}

// firstBytes is the memory for a body before its first byte has arrived.
const firstBytes = 4 << 10

// addedBytes is the maximum number of bytes that a forwarding node adds to a body: an id.
const addedBytes = 1 << 10

// bodyLimit returns the size of the largest body in bytes. A request that another node
// forwards is within that node's limit, which is larger for the messages of legacy
// transports. Any client can send the header of a forwarded request: Config.Inflight
// bounds the memory of all bodies together.
func (c *Call) bodyLimit() int64 {
	if c.ForwardedBy != nil || c.Inner {
		return MaxBodyBytes + addedBytes
	}
	return c.Core.Config.MaxBody
}

func BodyTooLarge(limit int64) error {
	return Fail(tooLarge, "the body is larger than %d bytes; split the request, or keep large data elsewhere and name it in the payload", limit)
}

func BrokenBody(err error, most int64) error {
	if errors.Is(err, limit.ErrOver) {
		return Fail(OverBudget, "the node has too many bytes of requests and answers in memory; retry after a moment")
	}
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return BodyTooLarge(most)
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		return Fail(slowRequest, "the body did not arrive in time; repeat the request")
	}
	return Fail(BadRequest, "the connection broke before the end of the body")
}

// Member returns the value of a field of the body, nil if it is absent. The body must have been
// decoded before.
func (c *Call) Member(name string) jsontext.Value {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(c.In, &members, Lenient); err != nil {
		return nil
	}
	return members[name]
}

// firstNull returns the index of the first null in a list of the body, or -1. A null would be
// decoded like an empty object.
func (c *Call) firstNull(list string) int {
	var items []jsontext.Value
	if err := json.Unmarshal(c.Member(list), &items, Lenient); err != nil {
		return -1
	}
	return slices.IndexFunc(items, IsNull)
}

func IsNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == jsontext.KindNull }

// badJSON returns an error with the mistake in a body and its position.
func badJSON(body []byte, v any, err error) error {
	if syntax, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		return named(syntax.JSONPointer, "is not valid JSON: %s at %s", reason(syntax.Err), place(body, int(syntax.ByteOffset)))
	}
	switch meaning, ok := errors.AsType[*json.SemanticError](err); {
	case ok && errors.Is(meaning.Err, json.ErrUnknownName):
		return unknownMembers(body, reflect.TypeOf(v))
	case ok:
		f := Fail(BadRequest, "%s: want %s, got %s (at %s)", memberName(meaning.JSONPointer),
			wanted(meaning.GoType), gotten(meaning), place(body, int(meaning.ByteOffset)))
		f.Members = []string{Shown(string(meaning.JSONPointer))}
		return f
	}
	return &Failure{Kind: BadRequest, Detail: "the body cannot be read", Cause: err}
}

// pointerMax is the maximum number of names of a pointer in an answer, because payloads can be
// deep.
const pointerMax = 4

// named attributes an error to the field of a pointer, or to a field that contains it.
func named(p jsontext.Pointer, format string, args ...any) error {
	names := slices.Collect(p.Tokens())
	p = ""
	for _, name := range names[:min(len(names), pointerMax)] {
		p = p.AppendToken(name)
	}
	f := Fail(BadRequest, "%s "+format, append([]any{memberName(p)}, args...)...)
	if p != "" {
		f.Members = []string{Shown(string(p))}
	}
	return f
}

// memberAt returns a pointer to the value at an offset in the body.
func memberAt(body []byte, at int) jsontext.Pointer {
	dec := jsontext.NewDecoder(bytes.NewReader(body), jsontext.AllowDuplicateNames(true))
	for dec.InputOffset() <= int64(at) {
		if _, err := dec.ReadToken(); err != nil {
			break
		}
	}
	return dec.StackPointer()
}

func reason(err error) string {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return "it ends in the middle"
	}
	return Shown(strings.TrimPrefix(err.Error(), "jsontext: "))
}

// place returns a position in the body as line and column for people.
func place(body []byte, offset int) string {
	before := body[:min(max(offset, 0), len(body))]
	line := bytes.Count(before, []byte{'\n'}) + 1
	column := utf8.RuneCount(before[bytes.LastIndexByte(before, '\n')+1:]) + 1
	return fmt.Sprintf("byte %d, line %d, column %d", offset, line, column)
}

func invalidAt(body []byte) int {
	at := 0
	for at < len(body) {
		r, size := utf8.DecodeRune(body[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// memberName returns a pointer without its first slash: "jobs/3/priority".
func memberName(p jsontext.Pointer) string {
	if p == "" {
		return "the body"
	}
	return Shown(strings.TrimPrefix(string(p), "/"))
}

// kindWords describe kinds of types in terms of JSON; the others are objects.
var kindWords = map[reflect.Kind]string{
	reflect.String:  "text",
	reflect.Bool:    "true or false",
	reflect.Int32:   "a whole number of 32 bits",
	reflect.Uint8:   "a whole number from 0 to 100", // percentages
	reflect.Float64: "a number",
	reflect.Int64:   "a whole number of 64 bits",
	reflect.Int:     "a whole number of 64 bits",
	reflect.Uint64:  "a whole number of 64 bits that is not negative",
	reflect.Slice:   "a list",
}

// wanted describes a type in terms of JSON.
func wanted(t reflect.Type) string {
	switch {
	case t == nil:
		return "something else"
	case t.Kind() == reflect.Pointer:
		return wanted(t.Elem())
	}
	return cmp.Or(kindWords[t.Kind()], "an object")
}

// valueWords describe the kinds of values apart from numbers.
var valueWords = map[jsontext.Kind]string{
	jsontext.KindString: "text", jsontext.KindTrue: "true or false", jsontext.KindFalse: "true or false",
	jsontext.KindBeginArray: "a list", jsontext.KindBeginObject: "an object", jsontext.KindNull: "null",
}

func gotten(e *json.SemanticError) string {
	switch {
	case e.JSONKind != jsontext.KindNumber:
		return cmp.Or(valueWords[e.JSONKind], "something else")
	case len(e.JSONValue) == 0: // the decoder reports it only if a number was valid
		return "a number"
	}
	return "the number " + Shown(string(e.JSONValue))
}

// shownMax is the number of bytes of a part of a request that an error repeats.
const shownMax = 120

// Shown returns a part of a request as an error repeats it.
func Shown(s string) string { return limit.ClipMarked(s, shownMax) }

// prefersStrict reports whether the request asks for strict handling (RFC 7240).
func prefersStrict(lines []string) bool {
	for _, line := range lines {
		if line == v1.PreferStrict {
			return true
		}
	}
	return strings.EqualFold(preference(lines, "handling"), "strict")
}

// preference returns the value of the first preference of that name; "" if there is
// none.
func preference(lines []string, name string) string {
	for _, line := range lines {
		for part := range strings.SplitSeq(line, ",") {
			part, _, _ = strings.Cut(part, ";")
			given, value, _ := strings.Cut(part, "=")
			if strings.EqualFold(strings.TrimSpace(given), name) {
				return strings.Trim(strings.TrimSpace(value), `"`)
			}
		}
	}
	return ""
}
