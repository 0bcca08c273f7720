package queuefile

import (
	"math"
	"strconv"
)

// named is a kind of small number that has names in the document.
type named interface {
	~uint8
	String() string
}

// word is where a member goes that is one of a few names.
type word struct {
	what   string // the kind, for errors
	name   func(name string) bool
	number func(n uint8)
}

func wordOf[K named](what string, dst *K) word {
	return word{
		what:   what,
		number: func(n uint8) { *dst = K(n) },
		name: func(name string) bool {
			k, ok := parseNamed[K](name)
			if ok {
				*dst = k
			}
			return ok
		},
	}
}

// noName is what a Code that has no name prints; other kinds print nothing.
const noName = "unknown"

func parseNamed[K named](name string) (K, bool) {
	if name == "" || name == noName {
		return 0, false
	}
	for n := range math.MaxUint8 + 1 {
		if k := K(n); k.String() == name {
			return k, true
		}
	}
	return 0, false
}

// word appends a member that is one of a few names, or the number of one that
// has none; nothing if it is the first of its kind.
func (a *appender) word(name, value string, n uint8) {
	switch {
	case n == 0:
	case value == "" || value == noName:
		a.plain(name, int64(n))
	default:
		a.text(name, value)
	}
}

// word reads what the appender's method of that name writes.
func (r *reader) word(dst word) error {
	if r.dec.PeekKind() == '0' {
		var n uint8
		if err := r.number(&n); err != nil {
			return err
		}
		dst.number(n)
		return nil
	}
	var name string
	if err := r.text(&name); err != nil {
		return err
	}
	if !dst.name(name) {
		return r.fail(dst.what+" "+strconv.Quote(name)+" is not known; upgrade this program", nil)
	}
	return nil
}

// anyWord takes a name that is known, and leaves the rest out.
func (r *reader) anyWord(dst word) error {
	var name string
	if err := r.anyText(&name); err != nil {
		return err
	}
	dst.name(name)
	return nil
}
