package core

import (
	"bytes"
	stdjson "encoding/json"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// UnknownMax is the maximum number of unknown fields that an answer names.
const UnknownMax = 20

// unknownMembers returns the refusal of a body with fields that the struct t points to does not
// have. The decoder stops at the first one; this function names all of them.
func unknownMembers(body []byte, t reflect.Type) error {
	found := walk(body, t).found
	f := Fail(unknownMember, "unknown fields: %s; leave them out, or send the header Prefer: handling=lenient", listed(found))
	f.Members = found
	return f
}

// repeatedMembers returns the refusal of a body in which fields that the server uses occur
// twice; nil if there are none.
func repeatedMembers(body []byte, t reflect.Type) error {
	twice := walk(body, t).twice
	if len(twice) == 0 {
		return nil
	}
	f := Fail(BadRequest, "fields that occur more than once in their object: %s", listed(twice))
	f.Members = twice
	return f
}

// listed formats pointers for people.
func listed(pointers []string) string {
	names := make([]string, len(pointers))
	for i, p := range pointers {
		names[i] = strings.TrimPrefix(p, "/")
	}
	return strings.Join(names, ", ")
}

func walk(body []byte, t reflect.Type) *walker {
	w := &walker{dec: jsontext.NewDecoder(bytes.NewReader(body), Lenient)}
	w.value(t)
	return w
}

// walker walks a body together with the type into which it is decoded.
type walker struct {
	dec   *jsontext.Decoder
	found []string // unknown members
	twice []string // members that occur again
}

// value walks one value. It returns false at the end of the body.
func (w *walker) value(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := w.dec.PeekKind(); {
	case kind == jsontext.KindBeginObject && t.Kind() == reflect.Struct:
		return w.object(t)
	case kind == jsontext.KindBeginArray && t.Kind() == reflect.Slice && t != reflect.TypeFor[stdjson.RawMessage]():
		return w.list(t.Elem())
	}
	return w.dec.SkipValue() == nil
}

func (w *walker) object(t reflect.Type) bool {
	_, err := w.dec.ReadToken()
	seen := make(map[string]bool)
	for err == nil && w.dec.PeekKind() == jsontext.KindString {
		var token jsontext.Token
		if token, err = w.dec.ReadToken(); err != nil {
			break
		}
		name := token.String()
		member, known := memberType(t, name)
		if !known {
			w.found = w.note(w.found)
		}
		if seen[name] {
			w.twice = w.note(w.twice)
		}
		seen[name] = true
		if !known {
			err = w.dec.SkipValue()
		} else if !w.value(member) {
			return false
		}
	}
	return err == nil && w.end()
}

// note adds the field that was read last.
func (w *walker) note(list []string) []string {
	if len(list) == UnknownMax {
		return list
	}
	return append(list, Shown(string(w.dec.StackPointer())))
}

func (w *walker) list(t reflect.Type) bool {
	_, err := w.dec.ReadToken()
	for err == nil && w.dec.PeekKind() != jsontext.KindEndArray {
		if !w.value(t) {
			return false
		}
	}
	return err == nil && w.end()
}

func (w *walker) end() bool {
	_, err := w.dec.ReadToken()
	return err == nil
}

// memberType returns the type of a field of a struct of package v1 by its JSON name.
func memberType(t reflect.Type, name string) (reflect.Type, bool) {
	for i := range t.NumField() {
		field := t.Field(i)
		tag, _, _ := strings.Cut(field.Tag.Get("json"), ",")
		if tag == name {
			return field.Type, true
		}
	}
	return nil, false
}
