package queuefile

import "github.com/go-json-experiment/json/jsontext"

// part is a member that is an object or an array: where it goes, and what kind
// of value it has to be. A loose reading passes over what is not of that kind.
type part struct {
	kind jsontext.Kind
	read func() error
}

func (r *reader) objectPart(find members) part {
	return part{kind: '{', read: func() error { return r.object(find) }}
}

// listPart is an array of objects.
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

// anyPart reads a part if it is one.
func (r *reader) anyPart(p part) error {
	if r.dec.PeekKind() != p.kind {
		return r.syntax(r.dec.SkipValue())
	}
	return p.read()
}

// record returns a reader of one object of a list at the top, which starts as
// first.
func record[T any](d *decoder, dst *[]*T, first T, member func(*T, string) any) func() error {
	return func() error {
		v := new(T)
		*v = first
		err := d.object(func(name string) any { return member(v, name) })
		*dst = append(*dst, v)
		return err
	}
}
