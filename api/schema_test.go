package api

import (
	"fmt"
	"maps"
	"math"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// checker holds values, as encoding/json would read them, against the schemas
// of the document. It knows the words that the document uses and refuses
// others, so that nothing stands there without being checked.
type checker struct{ root map[string]any }

// object is a node of the document, or a value.
type object = map[string]any

// check returns how v violates the schema. Objects must not have fields that the schema does
// not describe.
func (c *checker) check(s object, v any) error {
	s = c.deref(s)
	for _, word := range slices.Sorted(maps.Keys(s)) {
		if err := c.word(word, s[word], v); err != nil {
			return err
		}
	}
	if m, isObject := v.(object); isObject {
		return c.checkMembers(s, m)
	}
	return nil
}

func (c *checker) deref(s object) object {
	for {
		ref, isRef := s["$ref"].(string)
		if !isRef {
			return s
		}
		s = c.at(ref)
	}
}

// at follows a reference into the document.
func (c *checker) at(ref string) object {
	node := c.root
	for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
		next, ok := node[name].(object)
		if !ok {
			panic(ref + " does not exist")
		}
		node = next
	}
	return node
}

// word checks v against one keyword of a schema.
func (c *checker) word(word string, arg, v any) error {
	switch word {
	case "description", "default", "examples", "contentMediaType", "contentSchema", "properties", "required", "allOf", "x-go-const", "x-go-name", "x-go-names", "x-go-pointer", "x-field":
		return nil // says nothing, or see checkMembers
	case "type":
		return checkType(arg, v)
	case "anyOf":
		return c.anyOf(arg.([]any), v)
	case "items", "additionalProperties":
		return c.each(arg.(object), v)
	}
	return checkValue(word, arg, v)
}

func (c *checker) anyOf(schemas []any, v any) error {
	var err error
	for _, s := range schemas {
		if err = c.check(s.(object), v); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%v is none of what it can be; at last: %w", v, err)
}

// each checks the items of a list, or the fields of a map.
func (c *checker) each(s object, v any) error {
	switch v := v.(type) {
	case []any:
		for i, one := range v {
			if err := c.check(s, one); err != nil {
				return fmt.Errorf("%d: %w", i, err)
			}
		}
	case object:
		for name, one := range v {
			if err := c.check(s, one); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

// checkMembers checks those that the schema describes, by itself or by the
// schemas that it takes in.
func (c *checker) checkMembers(s, v object) error {
	described, required := c.members(s)
	for _, name := range required {
		if _, there := v[name]; !there {
			return fmt.Errorf("%s is missing", name)
		}
	}
	if len(described) == 0 {
		return nil
	}
	for name, value := range v {
		one, known := described[name].(object)
		if !known {
			return fmt.Errorf("%s is not described", name)
		}
		if err := c.check(one, value); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func (c *checker) members(s object) (described object, required []string) {
	described = make(object)
	parts, _ := s["allOf"].([]any)
	for _, part := range parts {
		base, more := c.members(c.deref(part.(object)))
		maps.Copy(described, base)
		required = append(required, more...)
	}
	own, _ := s["properties"].(object)
	maps.Copy(described, own)
	names, _ := s["required"].([]any)
	for _, name := range names {
		required = append(required, name.(string))
	}
	return described, required
}

func checkType(want, v any) error {
	names, several := want.([]any)
	if !several {
		names = []any{want}
	}
	if slices.ContainsFunc(names, func(name any) bool { return hasType(name.(string), v) }) {
		return nil
	}
	return fmt.Errorf("%v is not of the type %v", v, want)
}

func hasType(name string, v any) bool {
	switch v := v.(type) {
	case nil:
		return name == "null"
	case bool:
		return name == "boolean"
	case string:
		return name == "string"
	case float64:
		return name == "number" || name == "integer" && v == math.Trunc(v)
	case []any:
		return name == "array"
	case object:
		return name == "object"
	}
	return false
}

// checkValue checks a value against a keyword, without its parts. It accepts null, which only
// the type can refuse.
func checkValue(word string, arg, v any) error {
	fault := fmt.Errorf("%v: the document says %s %v", v, word, arg)
	good, known := true, true
	switch word {
	case "enum":
		good = slices.Contains(arg.([]any), v)
	case "const":
		good = reflect.DeepEqual(arg, v)
	case "pattern":
		good = regexp.MustCompile(arg.(string)).MatchString(v.(string))
	case "format":
		good, known = checkFormat(arg.(string), v)
	case "minimum", "minLength", "minItems", "minProperties":
		good = sizeOf(v) >= numberOf(arg)
	case "maximum", "maxLength", "maxItems", "maxProperties":
		good = sizeOf(v) <= numberOf(arg)
	default:
		known = false
	}
	switch {
	case !known:
		return fmt.Errorf("nobody checks %s %v", word, arg)
	case good || v == nil:
		return nil
	}
	return fault
}

// sizeOf returns the size that the bounds of a schema limit.
func sizeOf(v any) float64 {
	switch v := v.(type) {
	case float64:
		return v
	case string:
		return float64(utf8.RuneCountInString(v))
	case []any:
		return float64(len(v))
	case object:
		return float64(len(v))
	}
	return 0
}

func numberOf(arg any) float64 {
	if n, isInt := arg.(int); isInt {
		return float64(n)
	}
	return arg.(float64)
}

func checkFormat(format string, v any) (good, known bool) {
	n, _ := v.(float64)
	switch format {
	case "int32":
		return n >= math.MinInt32 && n <= math.MaxInt32, true
	case "int64":
		return n >= math.MinInt64 && n <= math.MaxInt64, true
	case "uint8":
		return n >= 0 && n <= math.MaxUint8, true
	case "uint32":
		return n >= 0 && n <= math.MaxUint32, true
	case "uint64":
		return n >= 0 && n <= math.MaxUint64, true
	case "uri":
		text, isText := v.(string)
		return isText && strings.Contains(text, ":"), true
	}
	return false, false
}

// A checker that lets everything pass would make the tests of the document say
// nothing.
func TestCheckerRefuses(t *testing.T) {
	c := &checker{root: object{"p": object{"type": "object", "properties": object{"a": object{"type": "integer"}}, "required": []any{"a"}}}}
	base := object{"$ref": "#/p"}
	both := object{"type": "object", "allOf": []any{base}, "properties": object{"b": object{"type": "string", "enum": []any{"x"}}}}
	for name, tc := range map[string]struct {
		s    object
		v    any
		good bool
	}{
		"integer":        {object{"type": "integer", "minimum": 1, "format": "int32"}, 2.0, true},
		"no integer":     {object{"type": "integer"}, 2.5, false},
		"too small":      {object{"minimum": 1}, 0.5, false},
		"too large":      {object{"format": "int32"}, math.Exp2(40), false},
		"null":           {object{"type": []any{"integer", "null"}, "minimum": 1}, nil, true},
		"not null":       {object{"type": "integer"}, nil, false},
		"pattern":        {object{"type": "string", "pattern": "^a$"}, "b", false},
		"const":          {object{"const": false}, true, false},
		"long":           {object{"maxLength": 2}, "äöü", false},
		"items":          {object{"type": "array", "items": object{"type": "string"}}, []any{"a", 1.0}, false},
		"few items":      {object{"minItems": 1}, []any{}, false},
		"map":            {object{"additionalProperties": base}, object{"x": object{"a": "1"}}, false},
		"member":         {base, object{"a": 1.0}, true},
		"missing":        {base, object{}, false},
		"unknown":        {base, object{"a": 1.0, "b": 1.0}, false},
		"both":           {both, object{"a": 1.0, "b": "x"}, true},
		"missing below":  {both, object{"b": "x"}, false},
		"wrong of two":   {both, object{"a": 1.0, "b": "y"}, false},
		"unknown of two": {both, object{"a": 1.0, "c": "y"}, false},
		"any of":         {object{"anyOf": []any{base, object{"type": "null"}}}, nil, true},
		"none of":        {object{"anyOf": []any{base, object{"type": "null"}}}, "x", false},
		"unknown word":   {object{"multipleOf": 2}, 2.0, false},
	} {
		if err := c.check(tc.s, tc.v); (err == nil) != tc.good {
			t.Errorf("%s: %v", name, err)
		}
	}
}
