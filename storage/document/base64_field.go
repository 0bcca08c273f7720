package document

import (
	"bytes"
	"encoding/base64"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// base64Field is a Base64 field: it has the exact value of another field of the same object. It
// counts only if the other field has the text that this package would have written for it:
// a writer that does not know Base64 fields may have changed the one and left the other as
// it was.
type base64Field struct {
	dst   any // destination of the other field
	exact []string
	list  bool
}

// hasBase64Field reports whether a field with destination dst can have a Base64 field.
func hasBase64Field(dst any) bool {
	switch dst.(type) {
	case *string, **string, *[]string, *[]byte:
		return true
	default:
		return false
	}
}

func (r *reader) readBase64Field(t *base64Field) error {
	read := r.base64
	if r.loose {
		read = r.anyBase64Field
	}
	if r.dec.PeekKind() == '[' {
		t.list = true
		return r.list(func() error { return read(t) })
	}
	return read(t)
}

func (r *reader) base64(t *base64Field) error {
	var plain string
	err := r.coded(coded{&plain})
	t.exact = append(t.exact, plain)
	return err
}

// coded is the destination of bytes that only exist as Base64.
type coded struct{ dst *string }

func (r *reader) coded(c coded) error {
	var text string
	if err := r.text(&text); err != nil {
		return err
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return r.fail("must be base64", err)
	}
	*c.dst = string(plain)
	return nil
}

// apply stores the exact value at the end of the object, if the other field still matches
// it.
func (t *base64Field) apply() {
	switch p := t.dst.(type) {
	case *[]string:
		if t.list && slices.EqualFunc(*p, t.exact, writtenAs) {
			*p = t.exact
		}
	case *string:
		if !t.list && writtenAs(*p, t.exact[0]) {
			*p = t.exact[0]
		}
	case **string:
		if !t.list && *p != nil && writtenAs(**p, t.exact[0]) {
			**p = t.exact[0]
		}
	case *[]byte:
		if !t.list && valueWrittenAs(*p, []byte(t.exact[0])) {
			*p = []byte(t.exact[0])
		}
	}
}

// writtenAs reports whether a document has plain for the text exact.
func writtenAs(plain, exact string) bool {
	quoted, _ := jsontext.AppendQuote(nil, exact)
	return unquote(quoted) == plain
}

// valueWrittenAs is writtenAs for a payload or result.
func valueWrittenAs(plain, exact []byte) bool {
	inner := bytes.Trim(exact, whiteSpace)
	if embeddable(inner) {
		return bytes.Equal(plain, inner)
	}
	return plain == nil
}
