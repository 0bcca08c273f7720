package document

import (
	"math"
	"strconv"
)

// named is a kind of small number that has names in the document.
type named interface {
	~uint8
	String() string
}

// word is the destination of a field with one of a few names.
type word struct {
	what string                 // the kind, for errors
	name func(name string) bool // stores a name if it is known
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

// noName is the text of a Code without a name; other kinds have an empty text.
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

// word appends a field with one of a few names; nothing for the first of its kind. No valid
// state has a value without a name. If there is one, word appends the number, so that a
// reader does not take the field for the first of its kind.
func (a *appender) word(name, value string, n uint8) {
	switch {
	case n == 0:
	case value == "" || value == noName:
		a.plain(name, int64(n))
	default:
		a.text(name, value)
	}
}

// word reads one of the names; an unknown name is an error.
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

// anyWord reads a known name and ignores any other value.
func (r *reader) anyWord(dst word) error {
	var name string
	if err := r.anyText(&name); err != nil {
		return err
	}
	dst.name(name)
	return nil
}
