package transcript

import (
	"fmt"
	"strconv"
	"strings"
)

// step is a field, an element, or every element.
type step struct {
	name  string
	index int // of an element, if not isMember
}

const (
	isMember = -1
	isEvery  = -2
)

// path leads from the top of a JSON value to a part of it.
type path []step

// parsePath reads a path. $text stands for a body that is text.
func parsePath(text string) (path, error) {
	rest, ok := strings.CutPrefix(text, "$")
	if !ok {
		return nil, fmt.Errorf("the path %q does not begin with $", text)
	}
	if rest == "text" {
		return path{{name: textBody, index: isMember}}, nil
	}
	var p path
	for rest != "" {
		var s step
		var err error
		if s, rest, err = parseStep(rest); err != nil {
			return nil, fmt.Errorf("the path %q: %w", text, err)
		}
		p = append(p, s)
	}
	return p, nil
}

// textBody is not a valid name of a field in a path.
const textBody = "text()"

func parseStep(rest string) (step, string, error) {
	if name, ok := strings.CutPrefix(rest, "."); ok {
		end := strings.IndexAny(name, ".[")
		if end < 0 {
			end = len(name)
		}
		if end == 0 {
			return step{}, "", fmt.Errorf("a name is missing")
		}
		return step{name: name[:end], index: isMember}, name[end:], nil
	}
	inner, behind, ok := strings.Cut(strings.TrimPrefix(rest, "["), "]")
	if !ok || rest[0] != '[' {
		return step{}, "", fmt.Errorf("%q is neither a member nor an element", rest)
	}
	if inner == "*" {
		return step{index: isEvery}, behind, nil
	}
	n, err := strconv.Atoi(inner)
	if err != nil || n < 0 {
		return step{}, "", fmt.Errorf("%q is no index", inner)
	}
	return step{index: n}, behind, nil
}

func (p path) String() string {
	var b strings.Builder
	b.WriteByte('$')
	for _, s := range p {
		switch s.index {
		case isMember:
			b.WriteString("." + s.name)
		case isEvery:
			b.WriteString("[*]")
		default:
			fmt.Fprintf(&b, "[%d]", s.index)
		}
	}
	return b.String()
}

// covers reports whether p matches place, which has no [*].
func (p path) covers(place path) bool {
	if len(p) != len(place) {
		return false
	}
	for i, s := range p {
		if s != place[i] && (s.index != isEvery || place[i].index < 0) {
			return false
		}
	}
	return true
}

// find returns the value at p, which has no [*].
func (p path) find(v any) (any, bool) {
	for _, s := range p {
		switch at := v.(type) {
		case map[string]any:
			m, ok := at[s.name]
			if !ok || s.index != isMember {
				return nil, false
			}
			v = m
		case []any:
			if s.index < 0 || s.index >= len(at) {
				return nil, false
			}
			v = at[s.index]
		default:
			return nil, false
		}
	}
	return v, true
}

// member and element return the paths below p.
func (p path) member(name string) path { return p.with(step{name: name, index: isMember}) }
func (p path) element(i int) path      { return p.with(step{index: i}) }
func (p path) with(s step) path        { return append(p[:len(p):len(p)], s) }
