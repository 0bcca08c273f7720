package document

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// base64Suffix is the suffix of the second field of a value that JSON cannot represent
// exactly.
const base64Suffix = "Base64"

// maxExact is the largest integer that JavaScript, and so a legacy broker that rewrites the
// document, represents exactly.
const maxExact = 1<<53 - 1

// appender builds JSON without a library: a flush spends half of its time here.
type appender struct {
	buf   []byte
	limit int // length of buf beyond which the result is discarded
	known *vocabulary
	lossy bool // an unknown field of the state is left out
	signs span // the field "sums", with space for the checksums
}

func (a *appender) open(c byte)  { a.buf = append(a.buf, c) }
func (a *appender) close(c byte) { a.buf = append(a.buf, c) }

// next appends the comma before every element except the first of its object or array.
func (a *appender) next() {
	if c := a.buf[len(a.buf)-1]; c != '{' && c != '[' {
		a.buf = append(a.buf, ',')
	}
}

// key begins a field. Names are constants of this package and need no escaping.
func (a *appender) key(name string) {
	a.next()
	a.buf = append(a.buf, '"')
	a.buf = append(a.buf, name...)
	a.buf = append(a.buf, '"', ':')
}

// text appends a text field. If value is not UTF-8, readers get it with replacement
// characters, and a Base64 field has the exact bytes.
func (a *appender) text(name, value string) {
	a.key(name)
	if !a.quote(value) {
		a.base64(name, []byte(value))
	}
}

// quote appends value as a string and reports whether it is UTF-8.
func (a *appender) quote(value string) bool {
	var err error
	a.buf, err = jsontext.AppendQuote(a.buf, value)
	return err == nil
}

// optional is like text, but appends nothing if value is empty.
func (a *appender) optional(name, value string) {
	if value != "" {
		a.text(name, value)
	}
}

// plain appends an integer field of the legacy broker.
func (a *appender) plain(name string, value int64) {
	a.key(name)
	a.buf = strconv.AppendInt(a.buf, value, 10)
}

// integer appends an integer field of this package. Beyond maxExact the value is quoted.
func (a *appender) integer(name string, value int64) {
	if value > maxExact || value < -maxExact {
		a.text(name, strconv.FormatInt(value, 10))
		return
	}
	a.plain(name, value)
}

// nonzero is like integer, but appends nothing if value is zero.
func (a *appender) nonzero(name string, value int64) {
	if value != 0 {
		a.integer(name, value)
	}
}

// unsigned appends a natural number in a field of this package.
func (a *appender) unsigned(name string, value uint64) {
	if value > maxExact {
		a.text(name, strconv.FormatUint(value, 10))
		return
	}
	a.key(name)
	a.buf = strconv.AppendUint(a.buf, value, 10)
}

// natural is like unsigned, but appends nothing if value is zero.
func (a *appender) natural(name string, value uint64) {
	if value != 0 {
		a.unsigned(name, value)
	}
}

// flag appends a boolean field; nothing if value is false.
func (a *appender) flag(name string, value bool) {
	if value {
		a.key(name)
		a.buf = append(a.buf, "true"...)
	}
}

// value appends a payload or result byte for byte; nothing if it is nil. If v is not
// exactly one JSON value, a Base64 field has the exact bytes; readers still get a value
// that only has white space around it.
func (a *appender) value(name string, v []byte) {
	if v == nil {
		return
	}
	inner := bytes.Trim(v, whiteSpace)
	fits := embeddable(inner)
	if fits {
		a.key(name)
		a.buf = append(a.buf, inner...)
	}
	if !fits || len(inner) != len(v) {
		a.base64(name, v)
	}
}

func (a *appender) base64(name string, value []byte) {
	a.key(name + base64Suffix)
	a.quote64(value)
}

func (a *appender) quote64(value []byte) {
	a.buf = append(a.buf, '"')
	a.buf = base64.StdEncoding.AppendEncode(a.buf, value)
	a.buf = append(a.buf, '"')
}

// texts appends a list of strings, and a Base64 field if one of them is not UTF-8; nothing
// if the list is empty.
func (a *appender) texts(name string, values []string) {
	if len(values) == 0 {
		return
	}
	exact := true
	a.key(name)
	a.open('[')
	for _, v := range values {
		a.next()
		exact = a.quote(v) && exact
	}
	a.close(']')
	if exact {
		return
	}
	a.key(name + base64Suffix)
	a.open('[')
	for _, v := range values {
		a.next()
		a.quote64([]byte(v))
	}
	a.close(']')
}

// span is a range of bytes.
type span struct{ from, to int }
