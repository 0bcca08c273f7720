package queuefile

import (
	"bytes"
	"encoding/base64"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// twin is a member that has, in base64, the exact value of another of the same
// object. It counts only if the other is what it would have been written as:
// a writer that does not know of twins may have changed the one and left the
// other behind.
type twin struct {
	dst   any // of the other member
	exact []string
	list  bool
}

// hasTwin reports whether members like dst have twins.
func hasTwin(dst any) bool {
	switch dst.(type) {
	case *string, **string, *[]string, *[]byte:
		return true
	default:
		return false
	}
}

func (r *reader) readTwin(t *twin) error {
	read := r.base64
	if r.loose {
		read = r.anyTwin
	}
	if r.dec.PeekKind() == '[' {
		t.list = true
		return r.list(func() error { return read(t) })
	}
	return read(t)
}

func (r *reader) base64(t *twin) error {
	var plain string
	err := r.coded(coded{&plain})
	t.exact = append(t.exact, plain)
	return err
}

// coded is where bytes go of which there only is the base64.
type coded struct{ dst *string }

func (r *reader) coded(c coded) error {
	var text string
	if err := r.text(&text); err != nil {
		return err
	}
	plain, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return r.fail("want base64", err)
	}
	*c.dst = string(plain)
	return nil
}

// apply puts the exact value in place, at the end of the object.
func (t *twin) apply() {
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

// writtenAs reports whether exact is text that stands in a document as plain.
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
