package queuefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ErrFormat is wrapped by Decode for a document that cannot be read.
var ErrFormat = errors.New("queue document cannot be read")

// reader walks through a document. An object is described by a function from a
// member's name to where its value goes: a pointer to one of the types in
// scalar, or a func() error that reads the value itself; a single for a member that
// must not be there twice; nil for one that is not known, which is skipped or kept, or
// is the twin of one that is. It has no effect.
type reader struct {
	dec   *jsontext.Decoder
	names map[string]string
	seen  map[string]bool // members at the top, for duplicates
	loose bool            // loose.go says how values are read then
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

// object reads an object, without the members that are not known.
func (r *reader) object(find members) error { return r.objectAnd(find, nil) }

// objectAnd reads an object, and keeps the members that are not known in rest if it is
// not nil.
func (r *reader) objectAnd(find members, rest *extras) error {
	if err := r.begin('{', "an object"); err != nil {
		return err
	}
	var twins []twin
	for r.dec.PeekKind() != '}' {
		raw, err := r.dec.ReadValue()
		if err != nil {
			return r.syntax(err)
		}
		if err := r.member(r.name(raw), find, &twins, rest); err != nil {
			return err
		}
	}
	for _, t := range twins {
		t.apply()
	}
	return r.end()
}

// list reads an array whose elements item reads.
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

// finish reports what stands behind the document.
func (r *reader) finish() error {
	switch _, err := r.dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return r.syntax(err)
	default:
		return fmt.Errorf("%w: it goes on after its end (byte %d)", ErrFormat, r.dec.InputOffset())
	}
}

// maxNames bounds the names that are kept from being allocated again.
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

// single is where a member goes that must not be there twice: two lists of jobs, of
// which only one would count, must not pass for a document.
type single struct {
	name string
	dst  any
}

// first is where the value of s goes, if it is the first one.
func (r *reader) first(s single) (dst any, err error) {
	if r.seen[s.name] {
		return nil, r.fail(fmt.Sprintf("the member %q occurs twice", s.name), nil)
	}
	r.seen[s.name] = true
	return s.dst, nil
}

func (r *reader) member(name string, find members, twins *[]twin, rest *extras) error {
	dst := find(name)
	if base, ok := strings.CutSuffix(name, base64Suffix); ok && dst == nil {
		if other := find(base); hasTwin(other) {
			dst = twin{dst: other}
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
	case twin:
		if err := r.readTwin(&p); err != nil {
			return err
		}
		if p.list || len(p.exact) > 0 {
			*twins = append(*twins, p)
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

// scalar reads what is not null into dst.
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

// unquote reads a string that the decoder has accepted. What is not Unicode in
// it becomes the replacement character.
func unquote(raw jsontext.Value) string {
	inner := raw[1 : len(raw)-1]
	if bytes.IndexByte(inner, '\\') < 0 && utf8.Valid(inner) {
		return string(inner)
	}
	plain, _ := jsontext.AppendUnquote(nil, raw)
	return string(plain)
}

// want is the error for the value that comes next and has the wrong type.
func (r *reader) want(what string) error {
	kind := r.dec.PeekKind()
	_ = r.dec.SkipValue() // moves the place of the error to the value
	return r.fail(fmt.Sprintf("want %s, not %s", what, kindName(kind)), nil)
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

// syntax passes nil through.
func (r *reader) syntax(err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, io.EOF):
		return fmt.Errorf("%w: it is empty", ErrFormat)
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
