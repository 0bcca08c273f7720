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
	what string                 // the kind, for errors
	name func(name string) bool // takes a name if it is known
}

func wordOf[K named](what string, dst *K) word {
	return word{
		what: what,
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

// word appends a member that is one of a few names; nothing if it is the first
// of its kind. No state has one without a name: the number, which takes its
// place, keeps the document from being read as if it had the first.
func (a *appender) word(name, value string, n uint8) {
	switch {
	case n == 0:
	case value == "" || value == noName:
		a.plain(name, int64(n))
	default:
		a.text(name, value)
	}
}

// word reads one of the names.
func (r *reader) word(dst word) error {
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
