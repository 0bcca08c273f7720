package document

import "github.com/go-json-experiment/json/jsontext"

// part is a field with an object or an array: the required kind of the value, and a
// function that reads it. A loose reading skips a value of another kind.
type part struct {
	kind jsontext.Kind
	read func() error
}

func (r *reader) objectPart(find members) part {
	return part{kind: '{', read: func() error { return r.object(find) }}
}

// listPart returns a part that reads an array of objects into dst.
func listPart[T any](r *reader, dst *[]T, member func(*T, string) any) part {
	item := func() error {
		if r.loose && r.dec.PeekKind() != '{' {
			return r.syntax(r.dec.SkipValue())
		}
		v := new(T)
		err := r.object(func(name string) any { return member(v, name) })
		*dst = append(*dst, *v)
		return err
	}
	return part{kind: '[', read: func() error {
		*dst = nil // the last of equal names counts
		return r.list(item)
	}}
}

// anyPart reads a part if the value has the required kind.
func (r *reader) anyPart(p part) error {
	if r.dec.PeekKind() != p.kind {
		return r.syntax(r.dec.SkipValue())
	}
	return p.read()
}
