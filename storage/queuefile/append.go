package queuefile

import (
	"bytes"
	"encoding/base64"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// base64Suffix marks the twin of a member whose value JSON cannot carry exactly.
const base64Suffix = "Base64"

// maxExact is the largest integer that JavaScript, and so an original broker
// that rewrites the document, keeps exactly.
const maxExact = 1<<53 - 1

// appender builds JSON by hand: half of the time of a flush is spent here.
type appender struct {
	buf   []byte
	limit int // length of buf beyond which nobody needs the rest
	known *vocabulary
}

func (a *appender) open(c byte)  { a.buf = append(a.buf, c) }
func (a *appender) close(c byte) { a.buf = append(a.buf, c) }

// next puts the comma before everything but the first in its object or array.
func (a *appender) next() {
	if c := a.buf[len(a.buf)-1]; c != '{' && c != '[' {
		a.buf = append(a.buf, ',')
	}
}

// key begins a member. Names are constants of this package and need no
// escaping.
func (a *appender) key(name string) {
	a.next()
	a.buf = append(a.buf, '"')
	a.buf = append(a.buf, name...)
	a.buf = append(a.buf, '"', ':')
}

// text appends a text member. If it is not UTF-8, readers get it with
// replacement characters, and a twin has it exactly.
func (a *appender) text(name, value string) {
	a.key(name)
	if !a.quote(value) {
		a.base64(name, []byte(value))
	}
}

// quote reports whether value is UTF-8.
func (a *appender) quote(value string) bool {
	var err error
	a.buf, err = jsontext.AppendQuote(a.buf, value)
	return err == nil
}

// optional is text for a member that is left out when empty.
func (a *appender) optional(name, value string) {
	if value != "" {
		a.text(name, value)
	}
}

// plain appends an integer of the original's.
func (a *appender) plain(name string, value int64) {
	a.key(name)
	a.buf = strconv.AppendInt(a.buf, value, 10)
}

// integer appends an integer of ours.
func (a *appender) integer(name string, value int64) {
	if value > maxExact || value < -maxExact {
		a.text(name, strconv.FormatInt(value, 10))
		return
	}
	a.plain(name, value)
}

// nonzero is integer for a member that is left out when zero.
func (a *appender) nonzero(name string, value int64) {
	if value != 0 {
		a.integer(name, value)
	}
}

// unsigned appends a natural number of ours.
func (a *appender) unsigned(name string, value uint64) {
	if value > maxExact {
		a.text(name, strconv.FormatUint(value, 10))
		return
	}
	a.key(name)
	a.buf = strconv.AppendUint(a.buf, value, 10)
}

// natural is unsigned for a member that is left out when zero.
func (a *appender) natural(name string, value uint64) {
	if value != 0 {
		a.unsigned(name, value)
	}
}

// flag appends a member that is left out when false.
func (a *appender) flag(name string, value bool) {
	if value {
		a.key(name)
		a.buf = append(a.buf, "true"...)
	}
}

// value appends a payload or result byte for byte; nothing if it is nil. If it
// is not exactly one JSON value, a twin has it; white space around the value
// does not keep readers from getting it.
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

// texts appends a list of strings, with a twin if one of them is not UTF-8;
// nothing if the list is empty.
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
