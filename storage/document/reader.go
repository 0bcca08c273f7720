package document

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrFormat is wrapped by each error of Decode: the document cannot be read.
var ErrFormat = errors.New("queue document cannot be read")

// reader reads a document field by field. A function of type members describes an object:
// it maps the name of a field to the destination of the value. A destination is a pointer
// to one of the types in scalar; a func() error that reads the value itself; a single for a
// field that must not occur twice; or nil for an unknown field, which is skipped, kept, or
// read as the Base64 field of a known one. The function has no side effects.
type reader struct {
	dec   *jsontext.Decoder
	names map[string]string
	seen  map[string]bool // fields at the top, to find duplicates
	loose bool            // a loose reading; see loose.go
}

type members func(name string) any

func newReader(data []byte) *reader {
	return &reader{
		// The decoder reads a bytes.Buffer in place and never writes to it.
		dec:   jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...),
		names: make(map[string]string),
		seen:  make(map[string]bool),
	}
}

// object reads an object and skips unknown fields.
func (r *reader) object(find members) error { return r.objectAnd(find, nil) }

// objectAnd reads an object, and keeps unknown fields in rest if it is not nil.
func (r *reader) objectAnd(find members, rest *extras) error {
	if err := r.begin('{', "an object"); err != nil {
		return err
	}
	var exacts []base64Field
	for r.dec.PeekKind() != '}' {
		raw, err := r.dec.ReadValue()
		if err != nil {
			return r.syntax(err)
		}
		if err := r.member(r.name(raw), find, &exacts, rest); err != nil {
			return err
		}
	}
	for _, t := range exacts {
		t.apply()
	}
	return r.end()
}

// list reads an array; item reads one element.
func (r *reader) list(item func() error) error {
	if err := r.begin('[', "an array"); err != nil {
		return err
	}
	for r.dec.PeekKind() != ']' {
		if r.dec.PeekKind() == 0 {
			_, err := r.dec.ReadToken()
			return r.syntax(err)
		}
		if err := item(); err != nil {
			return err
		}
	}
	return r.end()
}

func (r *reader) begin(kind jsontext.Kind, what string) error {
	if k := r.dec.PeekKind(); k != kind && k != 0 {
		return r.want(what)
	}
	_, err := r.dec.ReadToken()
	return r.syntax(err)
}

func (r *reader) end() error {
	_, err := r.dec.ReadToken()
	return r.syntax(err)
}

// finish returns an error if data follows the document.
func (r *reader) finish() error {
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return r.syntax(err)
	default:
		return fmt.Errorf("%w: trailing data after byte %d", ErrFormat, r.dec.InputOffset())
	}
}

// maxNames bounds the number of cached names.
const maxNames = 256

func (r *reader) name(raw jsontext.Value) string {
	quoted := string(raw)
	if known, ok := r.names[quoted]; ok {
		return known
	}
	name := unquote(raw)
	if len(r.names) < maxNames {
		r.names[quoted] = name
	}
	return name
}

// single is the destination of a field that must not occur twice: a document with two lists
// of jobs, of which only one would count, is invalid.
type single struct {
	name string
	dst  any
}

// first returns the destination of s, or an error if the field occurred before.
func (r *reader) first(s single) (dst any, err error) {
	if r.seen[s.name] {
		return nil, r.fail(fmt.Sprintf("field %q occurs twice", s.name), nil)
	}
	r.seen[s.name] = true
	return s.dst, nil
}

func (r *reader) member(name string, find members, exacts *[]base64Field, rest *extras) error {
	dst := find(name)
	if base, ok := strings.CutSuffix(name, base64Suffix); ok && dst == nil {
		if other := find(base); hasBase64Field(other) {
			dst = base64Field{dst: other}
		}
	}
	if s, ok := dst.(single); ok {
		var err error
		if dst, err = r.first(s); err != nil {
			return err
		}
	}
	switch p := dst.(type) {
	case nil:
		if rest != nil {
			return r.extra(name, rest)
		}
		return r.syntax(r.dec.SkipValue())
	case passed:
		*p.lost++
		return r.syntax(r.dec.SkipValue())
	case *[]byte:
		return r.json(p)
	case base64Field:
		if err := r.readBase64Field(&p); err != nil {
			return err
		}
		if p.list || len(p.exact) > 0 {
			*exacts = append(*exacts, p)
		}
		return nil
	}
	if r.dec.PeekKind() == 'n' {
		_, err := r.dec.ReadToken()
		return r.syntax(err)
	}
	if r.loose {
		return r.loosely(dst)
	}
	return r.scalar(dst)
}

// json keeps a value byte for byte.
func (r *reader) json(dst *[]byte) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	*dst = bytes.Clone(raw)
	return nil
}

// scalar reads a value other than null into dst.
func (r *reader) scalar(dst any) error {
	switch p := dst.(type) {
	case func() error:
		return p()
	case *string:
		return r.text(p)
	case **string:
		*p = new(string)
		return r.text(*p)
	case *[]string:
		*p = nil
		return r.texts(p)
	case statusOf:
		return r.status(p)
	case *bool:
		return r.flag(p)
	case word:
		return r.word(p)
	case part:
		return p.read()
	case coded:
		return r.coded(p)
	default:
		return r.number(dst)
	}
}

func (r *reader) text(dst *string) error {
	if r.dec.PeekKind() != '"' {
		return r.want("a string")
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	*dst = unquote(raw)
	return nil
}

// flag reads true or false.
func (r *reader) flag(dst *bool) error {
	if k := r.dec.PeekKind(); k != 't' && k != 'f' {
		return r.want("true or false")
	}
	raw, err := r.dec.ReadToken()
	if err != nil {
		return r.syntax(err)
	}
	*dst = raw.Bool()
	return nil
}

func (r *reader) texts(dst *[]string) error {
	return r.list(func() error {
		var s string
		if err := r.text(&s); err != nil {
			return err
		}
		*dst = append(*dst, s)
		return nil
	})
}

// unquote returns the text of a string that the decoder has accepted. Invalid Unicode
// becomes the replacement character.
func unquote(raw jsontext.Value) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	plain, _ := jsontext.AppendUnquote(nil, raw)
	return string(plain)
}

// want returns the error for the next value, which has the wrong type.
func (r *reader) want(what string) error {
	kind := r.dec.PeekKind()
	_ = r.dec.SkipValue() // moves the position of the error to the value
	return r.fail(fmt.Sprintf("must be %s, not %s", what, kindName(kind)), nil)
}

func (r *reader) fail(what string, cause error) error {
	place := r.dec.StackPointer()
	if place == "" {
		place = "the top"
	}
	err := fmt.Errorf("%w: at %s (byte %d): %s", ErrFormat, place, r.dec.InputOffset(), what)
	if cause != nil {
		err = fmt.Errorf("%w: %w", err, cause)
	}
	return err
}

// syntax wraps an error of the decoder. It returns nil for nil.
func (r *reader) syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: the document is empty", ErrFormat)
	default:
		return fmt.Errorf("%w: %w", ErrFormat, err)
	}
}

func kindName(k jsontext.Kind) string {
	switch k {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case '0':
		return "a number"
	case 'n':
		return "null"
	default:
		return "true or false"
	}
}
