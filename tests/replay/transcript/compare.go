package transcript

import (
	"encoding/base64"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
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

// checkPlaces refuses annotations that could not be applied.
func (c *Case) checkPlaces() error {
	for _, places := range [][]string{
		c.Volatile, c.Soft, c.Optional, c.JSONBytes,
		slices.Collect(maps.Keys(c.Refs)), slices.Collect(maps.Keys(c.Formats)), slices.Collect(maps.Values(c.Capture)),
	} {
		for _, p := range places {
			if !place.MatchString(p) {
				return fmt.Errorf("%q is no place in a value: write $.name[0].name, or $.name[*].name", p)
			}
		}
	}
	for _, ref := range c.Refs {
		if !reference.MatchString(ref) {
			return fmt.Errorf("refs: %q is no reference to a variable", ref)
		}
	}
	for _, name := range c.Formats {
		if formats[name] == nil {
			return fmt.Errorf("the format %q is not known", name)
		}
	}
	return nil
}

var (
	// place matches a place in a JSON value: members and elements from the top, $, on. The elements
	// are either numbered, or each one is [*]. $text is a body that is text.
	place   = regexp.MustCompile(`^\$(text|(\.[^.\[\]]+|\[\d+\])*|(\.[^.\[\]]+|\[\*\])*)$`)
	steps   = regexp.MustCompile(`\.([^.\[\]]+)|\[(\d+)\]`)
	element = regexp.MustCompile(`\[\d+\]`)
)

const (
	top      = "$"
	textBody = "$text"
)

// every returns the place with [*] for each element.
func every(at string) string { return element.ReplaceAllString(at, "[*]") }

// matches reports whether the place p of an annotation is at, or has [*] for its elements.
func matches(p, at string) bool { return p == at || strings.Contains(p, "[*]") && p == every(at) }

func covered(list []string, at string) bool {
	return slices.ContainsFunc(list, func(p string) bool { return matches(p, at) })
}

func wordFor(words map[string]string, at string) (string, bool) {
	for p, word := range words {
		if matches(p, at) {
			return word, true
		}
	}
	return "", false
}

// find returns the value at a place that has no [*].
func find(v any, at string) (any, bool) {
	for _, s := range steps.FindAllStringSubmatch(at, -1) {
		switch above := v.(type) {
		case map[string]any:
			m, ok := above[s[1]]
			if !ok {
				return nil, false
			}
			v = m
		case []any:
			i, err := strconv.Atoi(s[2])
			if err != nil || i >= len(above) {
				return nil, false
			}
			v = above[i]
		default:
			return nil, false
		}
	}
	return v, true
}

// judge compares an answer with a recorded value by the annotations of a case.
type judge struct {
	*Case
	vars Vars
	// extra reports whether the answer may have a field at a place where the recording has
	// none; nil means never.
	extra func(at string, name string) bool
}

// compare returns the first difference, nil if there is none.
func (j *judge) compare(at string, want, got any) *Difference {
	if d := j.format(at, got); d != nil {
		return d
	}
	if ref, ok := wordFor(j.Refs, at); ok {
		return j.compareRef(at, ref, got)
	}
	switch {
	case covered(j.Volatile, at) || covered(j.Soft, at):
		if typeOf(want) != typeOf(got) {
			return &Difference{at, "a value of type " + typeOf(want), describe(got)}
		}
		return nil
	case covered(j.JSONBytes, at):
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
		return &Difference{at, describe(want), describe(got)}
	}
	return nil
}

func (j *judge) format(at string, got any) *Difference {
	if name, ok := wordFor(j.Formats, at); ok && !formats[name](got) {
		return &Difference{at, "the format " + name, describe(got)}
	}
	return nil
}

func (j *judge) compareRef(at string, ref string, got any) *Difference {
	want, err := j.vars.reference(ref)
	if err != nil {
		return &Difference{at, ref, err.Error()}
	}
	if !same(want, got) {
		return &Difference{at, ref + ", which is " + describe(want), describe(got)}
	}
	return nil
}

func (j *judge) compareObjects(at string, want, got map[string]any) *Difference {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		below := at + "." + name
		value, ok := got[name]
		switch {
		case ok:
			if d := j.compare(below, want[name], value); d != nil {
				return d
			}
		case !covered(j.Optional, below):
			return &Difference{below, describe(want[name]), "no such member in " + describe(got)}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(got)) {
		below := at + "." + name
		if _, ok := want[name]; ok || covered(j.Optional, below) || (j.extra != nil && j.extra(at, name)) {
			continue
		}
		return &Difference{below, "no such member", describe(got[name])}
	}
	return nil
}

func (j *judge) compareArrays(at string, want, got []any) *Difference {
	if len(want) != len(got) {
		return &Difference{at, fmt.Sprintf("%d elements: %s", len(want), describe(want)), fmt.Sprintf("%d: %s", len(got), describe(got))}
	}
	for i := range want {
		if d := j.compare(fmt.Sprintf("%s[%d]", at, i), want[i], got[i]); d != nil {
			return d
		}
	}
	return nil
}

// compareBytes compares the JSON in two Base64 texts.
func (j *judge) compareBytes(at string, want, got any) *Difference {
	w, err := inBase64(want)
	if err != nil {
		return &Difference{at, "a recording in Base64 of JSON", err.Error()}
	}
	g, err := inBase64(got)
	if err != nil {
		return &Difference{at, "Base64 of " + describe(w), fmt.Sprintf("%s: %v", describe(got), err)}
	}
	if !same(w, g) {
		return &Difference{at, "Base64 of " + describe(w), "Base64 of " + describe(g)}
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
