package v1

import (
	"bytes"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"google.golang.org/protobuf/encoding/protowire"
)

// MediaTypeProtobuf is the content type of a Message in protobuf.
const MediaTypeProtobuf = "application/protobuf"

// Message is the body of a busy call or of its answer. It has the same fields in JSON and in protobuf (proto3), where the
// numbers of the fields are those of x-field in the contract. A field that is raw JSON is bytes there.
type Message interface {
	// AppendJSON and AppendProto append the message to b. Raw JSON stays byte for byte, unchecked. If a text is not UTF-8,
	// they append it with U+FFFD in place of each wrong byte, and also return a *FieldError.
	AppendJSON(b []byte) ([]byte, error)
	AppendProto(b []byte) ([]byte, error)
	// ParseProto replaces the message by the one in b, of which it keeps nothing. depth is the number of objects and
	// lists that the message would nest in JSON, at most. It skips unknown fields, and of a field that is
	// there several times takes the last. Its error is a *FieldError.
	ParseProto(b []byte, depth int) error
}

// FieldError says what is wrong with a message.
type FieldError struct {
	Pointer jsontext.Pointer // to the field; "": the whole message
	Problem string           // "is not UTF-8"
	TooMany bool             // a list has more items than it may have
}

// Error implements error.
func (e *FieldError) Error() string {
	if e.Pointer == "" {
		return "the message " + e.Problem
	}
	return strings.TrimPrefix(string(e.Pointer), "/") + " " + e.Problem
}

// need says when a field with the zero value is written.
type need uint8

const (
	optional need = iota // never
	required             // in JSON
	present              // in both: the value of a pointer
)

// writer writes the fields of a message, in JSON or in protobuf.
type writer struct {
	b    []byte
	json bool
	err  error
}

func (w *writer) omits(n need) bool { return n == optional || n == required && !w.json }

// key begins a field in JSON.
func (w *writer) key(name string) {
	w.next('{')
	w.b = append(append(append(w.b, '"'), name...), '"', ':')
}

// next separates an item in JSON from the one before, if any, in what begins with open.
func (w *writer) next(open byte) {
	if w.b[len(w.b)-1] != open {
		w.b = append(w.b, ',')
	}
}

// utf8 returns v, or v with U+FFFD in place of the bytes that are not UTF-8.
func (w *writer) utf8(name, v string) string {
	if utf8.ValidString(v) {
		return v
	}
	if w.err == nil {
		w.err = fieldError(name, notUTF8)
	}
	return string([]rune(v))
}

const notUTF8 = "is not UTF-8"

func fieldError(name, problem string) *FieldError {
	return &FieldError{Pointer: jsontext.Pointer("").AppendToken(name), Problem: problem}
}

func (w *writer) bytes(num protowire.Number, v string) {
	w.b = protowire.AppendString(protowire.AppendTag(w.b, num, protowire.BytesType), v)
}

func (w *writer) text(num protowire.Number, name string, n need, v string) {
	switch {
	case v == "" && w.omits(n):
	case w.json:
		w.key(name)
		w.b, _ = jsontext.AppendQuote(w.b, w.utf8(name, v))
	default:
		w.bytes(num, w.utf8(name, v))
	}
}

func (w *writer) number(num protowire.Number, name string, n need, v int64) {
	switch {
	case v == 0 && w.omits(n):
	case w.json:
		w.key(name)
		w.b = strconv.AppendInt(w.b, v, 10)
	default:
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, num, protowire.VarintType), uint64(v))
	}
}

func (w *writer) unsigned(num protowire.Number, name string, n need, v uint64) {
	switch {
	case v == 0 && w.omits(n):
	case w.json:
		w.key(name)
		w.b = strconv.AppendUint(w.b, v, 10)
	default:
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, num, protowire.VarintType), v)
	}
}

func (w *writer) flag(num protowire.Number, name string, n need, v bool) {
	switch {
	case !v && w.omits(n):
	case w.json:
		w.key(name)
		w.b = strconv.AppendBool(w.b, v)
	default:
		w.b = protowire.AppendVarint(protowire.AppendTag(w.b, num, protowire.VarintType), protowire.EncodeBool(v))
	}
}

func (w *writer) raw(num protowire.Number, name string, v []byte) {
	switch {
	case len(v) == 0:
	case w.json:
		w.key(name)
		w.b = append(w.b, v...)
	default:
		w.b = protowire.AppendBytes(protowire.AppendTag(w.b, num, protowire.BytesType), v)
	}
}

func (w *writer) texts(num protowire.Number, name string, n need, list []string) {
	if !w.list(name, n, len(list), len(list) > 0) {
		return
	}
	for _, v := range list {
		if v = w.utf8(name, v); w.json {
			w.next('[')
			w.b, _ = jsontext.AppendQuote(w.b, v)
		} else {
			w.bytes(num, v)
		}
	}
	w.endList()
}

// dict writes a map in the order of its keys, in protobuf as a map<string, string>.
func (w *writer) dict(num protowire.Number, name string, m map[string]string) {
	if m == nil {
		return
	}
	if w.json {
		w.object(num, name)
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		k, v := w.utf8(name, key), w.utf8(name, m[key])
		if w.json {
			w.next('{')
			w.b, _ = jsontext.AppendQuote(w.b, k)
			w.b, _ = jsontext.AppendQuote(append(w.b, ':'), v)
			continue
		}
		at := w.item(num)
		w.bytes(1, k)
		w.bytes(2, v)
		w.end(at)
	}
	if w.json {
		w.b = append(w.b, '}')
	}
}

// list begins a list of n items, unless the message lacks it. In protobuf an empty list is absent.
func (w *writer) list(name string, need need, n int, there bool) bool {
	if !w.json || !there && need == optional {
		return n > 0
	}
	w.key(name)
	w.b = append(w.b, '[')
	return true
}

func (w *writer) endList() {
	if w.json {
		w.b = append(w.b, ']')
	}
}

// object begins a message in a field, and item one in a list. The result is for end.
func (w *writer) object(num protowire.Number, name string) int {
	if w.json {
		w.key(name)
	}
	return w.begin(num)
}

func (w *writer) item(num protowire.Number) int {
	if w.json {
		w.next('[')
	}
	return w.begin(num)
}

func (w *writer) begin(num protowire.Number) int {
	if w.json {
		w.b = append(w.b, '{')
	} else {
		w.b = append(protowire.AppendTag(w.b, num, protowire.BytesType), 0) // the length, if it is below 128
	}
	return len(w.b)
}

// end ends a message that begins at an offset.
func (w *writer) end(at int) {
	if w.json {
		w.b = append(w.b, '}')
		return
	}
	n := len(w.b) - at
	if more := protowire.SizeVarint(uint64(n)) - 1; more > 0 {
		var none [8]byte
		w.b = append(w.b, none[:more]...)
		copy(w.b[at+more:], w.b[at:at+n])
	}
	protowire.AppendVarint(w.b[:at-1], uint64(n))
}

// reader reads the fields of a message in protobuf.
type reader struct {
	b     []byte      // what follows the field
	depth int         // levels that JSON may still have
	err   *FieldError // the first one; the rest is not read

	num    protowire.Number // of the field
	kind   protowire.Type
	number uint64
	bytes  []byte
}

// next reads a field. It returns false at the end, or after an error.
func (r *reader) next() bool {
	if r.err != nil || len(r.b) == 0 {
		return false
	}
	num, kind, n := protowire.ConsumeTag(r.b)
	if n >= 0 {
		r.b = r.b[n:]
		switch kind {
		case protowire.VarintType:
			r.number, n = protowire.ConsumeVarint(r.b)
		case protowire.BytesType:
			r.bytes, n = protowire.ConsumeBytes(r.b)
		default:
			n = protowire.ConsumeFieldValue(num, kind, r.b)
		}
	}
	if n < 0 {
		r.err = &FieldError{Problem: fmt.Sprintf("is not valid protobuf: %v", protowire.ParseError(n))}
		return false
	}
	r.b, r.num, r.kind = r.b[n:], num, kind
	return true
}

// result returns the error, as an interface that is nil without one.
func (r *reader) result() error {
	if r.err == nil {
		return nil
	}
	return r.err
}

func (r *reader) fail(name, problem string) {
	if r.err == nil {
		r.err = fieldError(name, problem)
	}
}

// is reports whether the field has the kind that its schema has. Another one is an error.
func (r *reader) is(kind protowire.Type, name string) bool {
	if r.kind != kind {
		r.fail(name, fmt.Sprintf("has the wire type %d; want %d", r.kind, kind))
	}
	return r.kind == kind
}

func (r *reader) text(name string) string {
	if !r.is(protowire.BytesType, name) {
		return ""
	}
	if !utf8.Valid(r.bytes) {
		r.fail(name, notUTF8)
	}
	return string(r.bytes)
}

// integer returns a number from low to high.
func (r *reader) integer(name string, low, high int64) int64 {
	if !r.is(protowire.VarintType, name) {
		return 0
	}
	v := int64(r.number)
	if v < low || v > high {
		r.fail(name, fmt.Sprintf("is %d; want a whole number from %d to %d", v, low, high))
	}
	return v
}

func (r *reader) int32(name string) int32 {
	return int32(r.integer(name, math.MinInt32, math.MaxInt32))
}
func (r *reader) uint8(name string) uint8 { return uint8(r.integer(name, 0, math.MaxUint8)) }
func (r *reader) int64(name string) int64 { return r.integer(name, math.MinInt64, math.MaxInt64) }

func (r *reader) uint64(name string) uint64 {
	r.is(protowire.VarintType, name)
	return r.number
}

func (r *reader) bool(name string) bool { return r.uint64(name) != 0 }

// raw returns a copy of JSON.
func (r *reader) raw(name string) []byte {
	switch {
	case !r.is(protowire.BytesType, name):
	case !ValidJSON(r.bytes):
		r.fail(name, "is not valid JSON in UTF-8")
	case TooDeep(r.bytes, r.depth-1) >= 0:
		r.fail(name, "nests objects and lists too deep")
	}
	return bytes.Clone(r.bytes)
}

// dict adds an entry to a map.
func (r *reader) dict(name string, to *map[string]string) {
	if !r.is(protowire.BytesType, name) {
		return
	}
	entry := reader{b: r.bytes}
	var key, value string
	for entry.next() {
		switch entry.num {
		case 1:
			key = entry.text(name)
		case 2:
			value = entry.text(name)
		}
	}
	if entry.err != nil {
		r.fail(name, entry.err.Problem)
		return
	}
	if *to == nil {
		*to = make(map[string]string)
	}
	(*to)[key] = value
}

// room reports whether a list of n items takes the item of the field.
func (r *reader) room(name string, n, most int) bool {
	if !r.is(protowire.BytesType, name) {
		return false
	}
	if n < most {
		return true
	}
	r.fail(name, fmt.Sprintf("has %d items; at most %d are allowed", n+r.count(), most))
	r.err.TooMany = true
	return false
}

// count returns the number of items that the field and those behind it add to a list. The memory for them is made
// once.
func (r *reader) count() int {
	rest, n := reader{b: r.b}, 1
	for rest.next() {
		if rest.num == r.num {
			n++
		}
	}
	return n
}

// within returns the reader of the message in the field, which in JSON is so many levels below.
func (r *reader) within(name string, levels int) reader {
	if !r.is(protowire.BytesType, name) {
		return reader{}
	}
	return reader{b: r.bytes, depth: r.depth - levels}
}

// leave takes over the error of a message in a field; at is its place in a list, or negative.
func (r *reader) leave(inner *reader, name string, at int) {
	if inner.err == nil || r.err != nil {
		return
	}
	e := inner.err
	p := jsontext.Pointer("").AppendToken(name)
	if at >= 0 {
		p = p.AppendToken(strconv.Itoa(at))
	}
	e.Pointer = p + e.Pointer
	r.err = e
}

// TooDeep returns the offset at which objects and lists in a text of JSON nest more than so many levels deep, or -1. The
// parser has a limit of its own. But a payload must stay readable within other documents, and for parsers with
// a lower limit.
func TooDeep(text []byte, levels int) int {
	if bytes.Count(text, []byte{'{'})+bytes.Count(text, []byte{'['}) <= levels {
		return -1
	}
	depth, inText := 0, false
	for i := 0; i < len(text); i++ {
		switch b := text[i]; {
		case inText && b == '\\':
			i++
		case b == '"':
			inText = !inText
		case inText:
		case b == '{', b == '[':
			if depth++; depth > levels {
				return i
			}
		case b == '}', b == ']':
			depth--
		}
	}
	return -1
}
