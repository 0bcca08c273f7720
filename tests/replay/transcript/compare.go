package transcript

import (
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
)

// Difference is the first difference that was found in an answer.
type Difference struct {
	Where string
	Want  string
	Got   string
}

func (d *Difference) String() string {
	return fmt.Sprintf("%s: expected %s, got %s", d.Where, d.Want, d.Got)
}

// rules say which parts of a recorded value count.
type rules struct {
	volatile, soft, optional, jsonBytes []path
	refs, formats                       []rule
}

// rule is an annotation of a path.
type rule struct {
	at   path
	word string
}

func (r *rawCase) rules() (rules, error) {
	var out rules
	for _, list := range []struct {
		from []string
		to   *[]path
	}{
		{r.Volatile, &out.volatile}, {r.Soft, &out.soft}, {r.Optional, &out.optional}, {r.JSONBytes, &out.jsonBytes},
	} {
		for _, text := range list.from {
			p, err := parsePath(text)
			if err != nil {
				return out, err
			}
			*list.to = append(*list.to, p)
		}
	}
	var err error
	if out.refs, err = parseRules(r.Refs); err != nil {
		return out, err
	}
	for _, ref := range out.refs {
		if !reference.MatchString(ref.word) {
			return out, fmt.Errorf("refs: %q is no reference to a variable", ref.word)
		}
	}
	if out.formats, err = parseRules(r.Formats); err != nil {
		return out, err
	}
	for _, f := range out.formats {
		if formats[f.word] == nil {
			return out, fmt.Errorf("the format %q is not known", f.word)
		}
	}
	_, err = parseRules(r.Capture)
	return out, err
}

// parseRules parses a map from paths to annotations.
func parseRules(m map[string]string) ([]rule, error) {
	var list []rule
	for _, key := range slices.Sorted(maps.Keys(m)) {
		at, word := key, m[key]
		if key[:min(len(key), 1)] != "$" { // a capture names the variable first
			at, word = word, at
		}
		p, err := parsePath(at)
		if err != nil {
			return nil, err
		}
		list = append(list, rule{p, word})
	}
	return list, nil
}

func covered(list []path, at path) bool {
	return slices.ContainsFunc(list, func(p path) bool { return p.covers(at) })
}

func wordFor(list []rule, at path) (string, bool) {
	for _, r := range list {
		if r.at.covers(at) {
			return r.word, true
		}
	}
	return "", false
}

// judge compares an answer with a recorded value by the rules of a case.
type judge struct {
	rules
	vars Vars
	// extra reports whether the answer may have a field at a place where the recording has
	// none; nil means never.
	extra func(at path, name string) bool
}

// compare returns the first difference, nil if there is none.
func (j *judge) compare(at path, want, got any) *Difference {
	if d := j.format(at, got); d != nil {
		return d
	}
	if ref, ok := wordFor(j.refs, at); ok {
		return j.compareRef(at, ref, got)
	}
	switch {
	case covered(j.volatile, at) || covered(j.soft, at):
		if typeOf(want) != typeOf(got) {
			return &Difference{at.String(), "a value of type " + typeOf(want), describe(got)}
		}
		return nil
	case covered(j.jsonBytes, at):
		return j.compareBytes(at, want, got)
	}
	switch want := want.(type) {
	case map[string]any:
		if got, ok := got.(map[string]any); ok {
			return j.compareObjects(at, want, got)
		}
	case []any:
		if got, ok := got.([]any); ok {
			return j.compareArrays(at, want, got)
		}
	}
	if !same(want, got) {
		return &Difference{at.String(), describe(want), describe(got)}
	}
	return nil
}

func (j *judge) format(at path, got any) *Difference {
	if name, ok := wordFor(j.formats, at); ok && !formats[name](got) {
		return &Difference{at.String(), "the format " + name, describe(got)}
	}
	return nil
}

func (j *judge) compareRef(at path, ref string, got any) *Difference {
	want, err := j.vars.reference(ref)
	if err != nil {
		return &Difference{at.String(), ref, err.Error()}
	}
	if !same(want, got) {
		return &Difference{at.String(), ref + ", which is " + describe(want), describe(got)}
	}
	return nil
}

func (j *judge) compareObjects(at path, want, got map[string]any) *Difference {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		below := at.member(name)
		value, ok := got[name]
		switch {
		case ok:
			if d := j.compare(below, want[name], value); d != nil {
				return d
			}
		case !covered(j.optional, below):
			return &Difference{below.String(), describe(want[name]), "no such member in " + describe(got)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		below := at.member(name)
		if _, ok := want[name]; ok || covered(j.optional, below) || (j.extra != nil && j.extra(at, name)) {
			continue
		}
		return &Difference{below.String(), "no such member", describe(got[name])}
	}
	return nil
}

func (j *judge) compareArrays(at path, want, got []any) *Difference {
	if len(want) != len(got) {
		return &Difference{at.String(), fmt.Sprintf("%d elements: %s", len(want), describe(want)), fmt.Sprintf("%d: %s", len(got), describe(got))}
	}
	for i := range want {
		if d := j.compare(at.element(i), want[i], got[i]); d != nil {
			return d
		}
	}
	return nil
}

// compareBytes compares the JSON in two Base64 texts.
func (j *judge) compareBytes(at path, want, got any) *Difference {
	w, err := inBase64(want)
	if err != nil {
		return &Difference{at.String(), "a recording in Base64 of JSON", err.Error()}
	}
	g, err := inBase64(got)
	if err != nil {
		return &Difference{at.String(), "Base64 of " + describe(w), fmt.Sprintf("%s: %v", describe(got), err)}
	}
	if !same(w, g) {
		return &Difference{at.String(), "Base64 of " + describe(w), "Base64 of " + describe(g)}
	}
	return nil
}

func inBase64(v any) (any, error) {
	s, ok := v.(string)
	if !ok {
		return nil, fmt.Errorf("it is no text")
	}
	data, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return nil, err
	}
	return Decode(data)
}

// same compares two values exactly.
func same(a, b any) bool {
	switch a := a.(type) {
	case Number:
		b, ok := b.(Number)
		return ok && a.canonical() == b.canonical()
	case []any:
		b, ok := b.([]any)
		return ok && slices.EqualFunc(a, b, same)
	case map[string]any:
		b, ok := b.(map[string]any)
		return ok && maps.EqualFunc(a, b, same)
	default:
		switch b.(type) {
		case []any, map[string]any:
			return false
		}
		return a == b
	}
}

// describeMax bounds the part of a value that a difference shows.
const describeMax = 240

func describe(v any) string { return clip(string(Encode(v))) }

func clip(s string) string {
	if len(s) > describeMax {
		return fmt.Sprintf("%s… (%d bytes)", s[:describeMax], len(s))
	}
	return s
}
