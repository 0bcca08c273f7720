package api

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/clip"
	"osqueue/internal/inflight"
)

// lenient accepts JSON that RFC 7493 forbids in payloads: duplicate names and
// escaped surrogate halves, which older producers write. Bytes that are not UTF-8
// are refused before.
var lenient = json.JoinOptions(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))

// namesOnce are the options of the first reading of a body. Duplicate names are
// rare, so the body is read again only then, to find out whether they are in a
// payload.
var namesOnce = jsontext.AllowInvalidUTF8(true)

// decode reads the body of the request into v, a pointer to a struct of
// package v1. It must be an object.
func (c *call) decode(v any) error {
	if err := c.peer.checkMedia(); err != nil {
		return err
	}
	if err := c.readBody(); err != nil {
		return err
	}
	return c.parse(v)
}

// decodeOptional is decode for a body that may be absent; v is zero then.
func (c *call) decodeOptional(v any) error {
	if err := c.readBody(); err != nil {
		return err
	}
	if len(bytes.TrimLeft(c.in, " \t\r\n")) == 0 {
		return nil
	}
	return c.decode(v)
}

func (c *call) parse(v any) error {
	body := c.in
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) == 0 {
		return fail(badRequest, "the body is empty; send a JSON object, at least {}")
	} else if start[0] != '{' {
		return fail(badRequest, "the body must be a JSON object")
	}
	if !utf8.Valid(body) {
		return fail(badRequest, "the body is not UTF-8 (at %s)", place(body, invalidAt(body)))
	}
	if at := tooDeep(body, c.s.cfg.Limits.Depth); at >= 0 {
		return named(memberAt(body, at), "nests objects and lists more than %d levels deep (at %s)",
			c.s.cfg.Limits.Depth, place(body, at))
	}
	if c.shared = scanned(body, v); c.shared {
		return nil
	}
	reflect.ValueOf(v).Elem().SetZero()
	return c.unmarshal(v)
}

// unmarshal reads any body with the general decoder.
func (c *call) unmarshal(v any) error {
	body := c.in
	known := json.RejectUnknownMembers(c.refusesUnknown())
	err := json.Unmarshal(body, v, namesOnce, known)
	if errors.Is(err, jsontext.ErrDuplicateName) {
		if err := repeatedMembers(body, reflect.TypeOf(v)); err != nil {
			return err
		}
		reflect.ValueOf(v).Elem().SetZero()
		err = json.Unmarshal(body, v, lenient, known)
	}
	if err != nil {
		return badJSON(body, v, err)
	}
	return nil
}

// refusesUnknown reports whether a body must not have fields that the API does not
// know.
func (c *call) refusesUnknown() bool {
	if c.strict || c.route == nil {
		return c.strict
	}
	return !c.route.lenient && !strings.EqualFold(preference(c.prefer, "handling"), "lenient")
}

// tooDeep returns the offset at which a body exceeds the depth limit, or -1. The parser has a
// limit of its own. But a payload must stay readable within other documents, and for parsers
// with a lower limit.
func tooDeep(body []byte, limit int) int {
	if bytes.Count(body, []byte{'{'})+bytes.Count(body, []byte{'['}) <= limit {
		return -1
	}
	depth, inText := 0, false
	for i := 0; i < len(body); i++ {
		switch b := body[i]; {
		case inText && b == '\\':
			i++
		case b == '"':
			inText = !inText
		case inText:
		case b == '{', b == '[':
			if depth++; depth > limit {
				return i
			}
		case b == '}', b == ']':
			depth--
		}
	}
	return -1
}

// readBody reads the body into c.in up to its end: net/http detects a disconnected client only
// after that.
func (c *call) readBody() error {
	if c.isRead {
		return nil
	}
	limit := c.bodyLimit()
	body, length := c.peer.body()
	if length > limit {
		return bodyTooLarge(limit)
	}
	c.in = c.in[:0]
	// The announced bytes may never arrive. One byte more shows the end without another step.
	c.in = slices.Grow(c.in, int(min(max(length, 0), firstBytes))+1)
	held := 0
	for {
		n, err := body.Read(c.in[len(c.in):cap(c.in)])
		c.in = c.in[:len(c.in)+n]
		if over := c.held.Take(usedOf(c.in) - held); over != nil {
			return brokenBody(over, limit)
		}
		held = usedOf(c.in)
		switch {
		case int64(len(c.in)) > limit:
			return bodyTooLarge(limit)
		case errors.Is(err, io.EOF):
			c.isRead = true
			_ = body.Close() // or else net/http looks for more before it writes the answer
			return nil
		case err != nil:
			return brokenBody(err, limit)
		case len(c.in) == cap(c.in):
			// The memory counts now: the bytes for it may never arrive.
			more := len(c.in)
			if left := length + 1 - int64(more); left > 0 {
				more = min(more, int(left))
			}
			c.in = slices.Grow(c.in, more)
			if over := c.held.Take(usedOf(c.in) - held); over != nil {
				return brokenBody(over, limit)
			}
			held = usedOf(c.in)
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
func (c *call) bodyLimit() int64 {
	if c.forwardedBy != nil || c.inner {
		return MaxBodyBytes + addedBytes
	}
	return c.s.cfg.MaxBody
}

func bodyTooLarge(limit int64) error {
	return fail(tooLarge, "the body is larger than %d bytes; split the request, or keep large data elsewhere and name it in the payload", limit)
}

func brokenBody(err error, limit int64) error {
	if errors.Is(err, inflight.ErrOver) {
		return fail(overBudget, "the node has too many bytes of requests and answers in memory; retry after a moment")
	}
	if tooBig := (*http.MaxBytesError)(nil); errors.As(err, &tooBig) {
		return bodyTooLarge(limit)
	}
	if slow := net.Error(nil); errors.As(err, &slow) && slow.Timeout() {
		return fail(slowRequest, "the body did not arrive in time; repeat the request")
	}
	return fail(badRequest, "the connection broke before the end of the body")
}

// member returns the value of a field of the body, nil if it is absent. The body must have been
// decoded before.
func (c *call) member(name string) jsontext.Value {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(c.in, &members, lenient); err != nil {
		return nil
	}
	return members[name]
}

// firstNull returns the index of the first null in a list of the body, or -1. A null would be
// decoded like an empty object.
func (c *call) firstNull(list string) int {
	var items []jsontext.Value
	if err := json.Unmarshal(c.member(list), &items, lenient); err != nil {
		return -1
	}
	return slices.IndexFunc(items, isNull)
}

func isNull(v jsontext.Value) bool { return len(v) == 0 || v.Kind() == jsontext.KindNull }

// badJSON returns an error with the mistake in a body and its position.
func badJSON(body []byte, v any, err error) error {
	var syntax *jsontext.SyntacticError
	var meaning *json.SemanticError
	switch {
	case errors.As(err, &syntax):
		return named(syntax.JSONPointer, "is not valid JSON: %s at %s", reason(syntax.Err), place(body, int(syntax.ByteOffset)))
	case errors.As(err, &meaning) && errors.Is(meaning.Err, json.ErrUnknownName):
		return unknownMembers(body, reflect.TypeOf(v))
	case errors.As(err, &meaning):
		f := fail(badRequest, "%s: want %s, got %s (at %s)", memberName(meaning.JSONPointer),
			wanted(meaning.GoType), gotten(meaning), place(body, int(meaning.ByteOffset)))
		f.members = []string{shown(string(meaning.JSONPointer))}
		return f
	}
	return &failure{kind: badRequest, detail: "the body cannot be read", cause: err}
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
	f := fail(badRequest, "%s "+format, append([]any{memberName(p)}, args...)...)
	if p != "" {
		f.members = []string{shown(string(p))}
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
	return shown(strings.TrimPrefix(err.Error(), "jsontext: "))
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
	return shown(strings.TrimPrefix(string(p), "/"))
}

// wanted describes a type in terms of JSON.
func wanted(t reflect.Type) string {
	if t == nil {
		return "something else"
	}
	switch t.Kind() {
	case reflect.String:
		return "text"
	case reflect.Bool:
		return "true or false"
	case reflect.Int32:
		return "a whole number of 32 bits"
	case reflect.Uint8: // percentages
		return "a whole number from 0 to 100"
	case reflect.Float64:
		return "a number"
	case reflect.Int64, reflect.Int:
		return "a whole number of 64 bits"
	case reflect.Uint64:
		return "a whole number of 64 bits that is not negative"
	case reflect.Slice:
		return "a list"
	case reflect.Pointer:
		return wanted(t.Elem())
	default:
		return "an object"
	}
}

func gotten(e *json.SemanticError) string {
	switch e.JSONKind {
	case jsontext.KindString:
		return "text"
	case jsontext.KindNumber:
		if len(e.JSONValue) == 0 { // the decoder reports it only if a number was valid
			return "a number"
		}
		return "the number " + shown(string(e.JSONValue))
	case jsontext.KindTrue, jsontext.KindFalse:
		return "true or false"
	case jsontext.KindBeginArray:
		return "a list"
	case jsontext.KindBeginObject:
		return "an object"
	case jsontext.KindNull:
		return "null"
	}
	return "something else"
}

// shownMax is the number of bytes of a part of a request that an error repeats.
const shownMax = 120

// shown returns a part of a request as an error repeats it.
func shown(s string) string { return clip.Marked(s, shownMax) }

// prefers reports whether the request asks for strict handling (RFC 7240).
func prefers(lines []string) bool {
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
