package transcript

import (
	"fmt"
	"regexp"
	"strconv"
)

// Vars are the values that a sequence has captured, by name.
type Vars map[string]any

var (
	variable = regexp.MustCompile(`\$([A-Za-z_]\w*)`)
	// reference matches a text that is only a variable, or a variable and a number.
	reference = regexp.MustCompile(`^\$([A-Za-z_]\w*)([+-]\d+)?$`)
)

// Text replaces variables in a text.
func (v Vars) Text(text string) (string, error) {
	var missing error
	out := variable.ReplaceAllStringFunc(text, func(name string) string {
		value, ok := v[name[1:]]
		if !ok {
			missing = unknownVariable(name)
			return name
		}
		if s, ok := value.(string); ok {
			return s
		}
		return string(Encode(value))
	})
	return out, missing
}

// Value replaces variables in a JSON value: a text that is a variable becomes its value, with
// its type.
func (v Vars) Value(value any) (any, error) {
	switch value := value.(type) {
	case string:
		if reference.MatchString(value) {
			return v.reference(value)
		}
		return v.Text(value)
	case []any:
		out := make([]any, len(value))
		for i, e := range value {
			var err error
			if out[i], err = v.Value(e); err != nil {
				return nil, err
			}
		}
		return out, nil
	case map[string]any:
		out := make(map[string]any, len(value))
		for name, m := range value {
			var err error
			if out[name], err = v.Value(m); err != nil {
				return nil, err
			}
		}
		return out, nil
	default:
		return value, nil
	}
}

// reference returns the value of "$name" or "$name+1".
func (v Vars) reference(text string) (any, error) {
	m := reference.FindStringSubmatch(text)
	if m == nil {
		return nil, fmt.Errorf("%q is no reference to a variable", text)
	}
	value, ok := v[m[1]]
	if !ok {
		return nil, unknownVariable("$" + m[1])
	}
	if m[2] == "" {
		return value, nil
	}
	n, ok := value.(Number)
	if !ok {
		return nil, fmt.Errorf("%s: %s is a %s", text, m[1], typeOf(value))
	}
	base, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %s is no integer", text, n)
	}
	more, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", text, err)
	}
	return Number(strconv.FormatInt(base+more, 10)), nil
}

func unknownVariable(name string) error {
	return fmt.Errorf("%s has no value: the case that captures it did not get it", name)
}

// take stores the values that the case captures from an answer. A missing value is not
// captured.
func (c *Case) take(answer any, vars Vars) {
	for name, at := range c.Capture {
		if value, ok := find(answer, at); ok {
			vars[name] = value
		}
	}
}
