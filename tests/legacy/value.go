package legacy

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Values are those of JSON.parse: nil, bool, float64, string, []any, *object.

// object is a JavaScript object, with its fields in insertion order.
type object struct {
	names  []string
	values map[string]any
}

func newObject() *object { return &object{values: make(map[string]any)} }

func (o *object) get(name string) (value any, there bool) {
	value, there = o.values[name]
	return value, there
}

// set sets a field, at its old place if it exists.
func (o *object) set(name string, value any) {
	if _, there := o.values[name]; !there {
		o.names = append(o.names, name)
	}
	o.values[name] = value
}

func (o *object) remove(name string) {
	if _, there := o.values[name]; there {
		delete(o.values, name)
		o.names = slices.DeleteFunc(o.names, func(n string) bool { return n == name })
	}
}

// number converts a field as JavaScript does in a calculation: NaN if it is absent.
func (o *object) number(name string) float64 {
	switch v := o.values[name].(type) {
	case float64:
		return v
	case string: // a time that was written as text
		if f, err := strconv.ParseFloat(v, 64); err == nil {
			return f
		}
	}
	return math.NaN()
}

// same is JavaScript's ===. An array or object is only the same as itself.
func same(a, b any) bool {
	if _, list := a.([]any); list {
		return false
	}
	if _, list := b.([]any); list {
		return false
	}
	return a == b
}

// parse is JSON.parse.
func parse(text []byte) (any, error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(text), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	v, err := read(dec)
	if err != nil {
		return nil, err
	}
	if _, err := dec.ReadToken(); err != io.EOF { //nolint:errorlint // never wrapped
		return nil, fmt.Errorf("there is more behind the value, at byte %d", dec.InputOffset())
	}
	return v, nil
}

func read(dec *jsontext.Decoder) (any, error) {
	t, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case '{':
		return readObject(dec)
	case '[':
		return readArray(dec)
	case '"':
		return t.String(), nil
	case '0':
		f, _ := t.Float() // a number that is too large is infinite
		return f, nil
	case 'n':
		return nil, nil
	default:
		return t.Bool(), nil
	}
}

func readObject(dec *jsontext.Decoder) (any, error) {
	o := newObject()
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		key := name.String()
		value, err := read(dec)
		if err != nil {
			return nil, err
		}
		o.set(key, value) // the last of several equal names counts
	}
	_, err := dec.ReadToken()
	return o, err
}

func readArray(dec *jsontext.Decoder) (any, error) {
	a := []any{}
	for dec.PeekKind() != ']' {
		value, err := read(dec)
		if err != nil {
			return nil, err
		}
		a = append(a, value)
	}
	_, err := dec.ReadToken()
	return a, err
}

// stringify is JSON.stringify.
func stringify(v any) []byte {
	var b bytes.Buffer
	enc := jsontext.NewEncoder(&b, jsontext.AllowInvalidUTF8(true))
	write(enc, v)
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

// write encodes v. It cannot fail: parse and the rules only produce JSON values.
func write(enc *jsontext.Encoder, v any) {
	switch v := v.(type) {
	case nil:
		_ = enc.WriteToken(jsontext.Null)
	case bool:
		_ = enc.WriteToken(jsontext.Bool(v))
	case float64:
		writeNumber(enc, v)
	case string:
		_ = enc.WriteToken(jsontext.String(v))
	case []any:
		_ = enc.WriteToken(jsontext.BeginArray)
		for _, element := range v {
			write(enc, element)
		}
		_ = enc.WriteToken(jsontext.EndArray)
	case *object:
		_ = enc.WriteToken(jsontext.BeginObject)
		for _, name := range v.names {
			_ = enc.WriteToken(jsontext.String(name))
			write(enc, v.values[name])
		}
		_ = enc.WriteToken(jsontext.EndObject)
	default:
		panic(fmt.Sprintf("%T is no value of JavaScript", v))
	}
}

func writeNumber(enc *jsontext.Encoder, v float64) {
	switch {
	case math.IsInf(v, 0) || math.IsNaN(v):
		_ = enc.WriteToken(jsontext.Null)
	case v == 0: // also -0
		_ = enc.WriteToken(jsontext.Int(0))
	default:
		_ = enc.WriteToken(jsontext.Float(v))
	}
}
