package api

import (
	"bytes"
	"reflect"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// unknownMax is how many unknown members an answer names.
const unknownMax = 20

// unknownMembers is the refusal of a body that has members which t, a pointer
// to a struct, does not. The decoder stops at the first; this names them all.
func unknownMembers(body []byte, t reflect.Type) error {
	w := walker{dec: jsontext.NewDecoder(bytes.NewReader(body), lenient)}
	w.value(t)
	names := make([]string, len(w.found))
	for i, p := range w.found {
		names[i] = strings.TrimPrefix(p, "/")
	}
	f := fail(unknownMember, "unknown members: %s; leave them out, or the header Prefer: handling=strict",
		strings.Join(names, ", "))
	f.members = w.found
	return f
}

// walker goes through a body beside the type that it is to be read into.
type walker struct {
	dec   *jsontext.Decoder
	found []string
}

// value walks one value. It returns false when there is nothing more to read.
func (w *walker) value(t reflect.Type) bool {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch kind := w.dec.PeekKind(); {
	case kind == jsontext.KindBeginObject && t.Kind() == reflect.Struct:
		return w.object(t)
	case kind == jsontext.KindBeginArray && t.Kind() == reflect.Slice && t != reflect.TypeFor[jsontext.Value]():
		return w.list(t.Elem())
	}
	return w.dec.SkipValue() == nil
}

func (w *walker) object(t reflect.Type) bool {
	_, err := w.dec.ReadToken()
	for err == nil && w.dec.PeekKind() == jsontext.KindString {
		var name jsontext.Token
		if name, err = w.dec.ReadToken(); err != nil {
			break
		}
		member, known := memberType(t, name.String())
		if !known && len(w.found) < unknownMax {
			w.found = append(w.found, clip(string(w.dec.StackPointer())))
		}
		if !known {
			err = w.dec.SkipValue()
		} else if !w.value(member) {
			return false
		}
	}
	return err == nil && w.end()
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

// memberType finds the member of a struct of package v1 by its name.
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
