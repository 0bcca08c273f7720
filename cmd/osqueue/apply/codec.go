package apply

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"

	"osqueue/cmd/osqueue/view"
)

// entry is the settings of one thing: the fields of a wire type, in JSON, in the order of their names.
type entry map[string]jsontext.Value

// ordered makes two JSON values that mean the same the same bytes, and keeps the digits of numbers.
var ordered = json.JoinOptions(json.Deterministic(true), jsontext.ReorderRawObjects(true))

// entryOf returns the fields of a wire value, without those that are not set.
func entryOf(wire any) (entry, error) {
	text, err := json.Marshal(wire, ordered)
	if err != nil {
		return nil, err
	}
	var e entry
	if err := json.Unmarshal(text, &e); err != nil {
		return nil, err
	}
	for name, value := range e {
		if err := value.Format(jsontext.ReorderRawObjects(true)); err != nil {
			return nil, err
		}
		e[name] = value
	}
	return e, nil
}

// shown returns the fields of an answer of the API that the wire type T of a request has too.
func shown[T any](answer any) (to T, err error) {
	text, err := json.Marshal(answer)
	if err == nil {
		err = json.Unmarshal(text, &to)
	}
	return to, err
}

// decode reads an entry of the file into a wire type. Its errors name the line, and the names that are nearest to an unknown
// field.
func decode(node *yaml.Node, to any) error {
	text, err := toJSON(node)
	if err != nil {
		return err
	}
	err = json.Unmarshal(text, to, json.RejectUnknownMembers(true))
	var wrong *json.SemanticError
	switch {
	case !errors.As(err, &wrong):
		return err
	case errors.Is(err, json.ErrUnknownName):
		name := wrong.JSONPointer.LastToken()
		return fmt.Errorf("line %d: unknown field %q%s", lineOf(node, wrong.JSONPointer), name, view.Suggest(name, fieldsOf(wrong.GoType)))
	}
	cause := "has the wrong type"
	if wrong.GoType != nil {
		cause += ": it is a JSON " + wrong.JSONKind.String()
	}
	return fmt.Errorf("line %d: %s %s", lineOf(node, wrong.JSONPointer), strings.TrimPrefix(string(wrong.JSONPointer), "/"), cause)
}

// fieldsOf returns the names of the fields of a struct of package v1.
func fieldsOf(t reflect.Type) (names []string) {
	if t == nil || t.Kind() != reflect.Struct {
		return nil
	}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return names
}

// lineOf returns the line of what a pointer names, or of the last part of it that is there.
func lineOf(node *yaml.Node, pointer jsontext.Pointer) int {
	line := node.Line
	for token := range pointer.Tokens() {
		next := (*yaml.Node)(nil)
		switch node.Kind {
		case yaml.MappingNode:
			for i := 0; i < len(node.Content); i += 2 {
				if node.Content[i].Value == token {
					line, next = node.Content[i].Line, node.Content[i+1]
				}
			}
		case yaml.SequenceNode:
			if i, err := strconv.Atoi(token); err == nil && i < len(node.Content) {
				line, next = node.Content[i].Line, node.Content[i]
			}
		}
		if next == nil {
			return line
		}
		node = next
	}
	return line
}

// toJSON returns a YAML value as JSON, with all digits of numbers. Dates are strings.
func toJSON(node *yaml.Node) (jsontext.Value, error) {
	switch node.Kind {
	case yaml.AliasNode:
		return nil, fmt.Errorf("line %d: aliases are not allowed", node.Line)
	case yaml.SequenceNode:
		out := jsontext.Value("[")
		for i, item := range node.Content {
			value, err := toJSON(item)
			if err != nil {
				return nil, err
			}
			out = append(append(out, separator(i)...), value...)
		}
		return append(out, ']'), nil
	case yaml.MappingNode:
		out := jsontext.Value("{")
		for i := 0; i < len(node.Content); i += 2 {
			value, err := toJSON(node.Content[i+1])
			if err != nil {
				return nil, err
			}
			if out, err = jsontext.AppendQuote(append(out, separator(i)...), node.Content[i].Value); err != nil {
				return nil, fmt.Errorf("line %d: %w", node.Line, err)
			}
			out = append(append(out, ':'), value...)
		}
		return append(out, '}'), nil
	}
	switch tag := node.ShortTag(); tag {
	case "!!null":
		return jsontext.Value("null"), nil
	case "!!bool", "!!int", "!!float":
		if value := jsontext.Value(node.Value); value.IsValid() {
			return value, nil
		}
		var v any // such as 0x10 or yes
		if err := node.Decode(&v); err != nil {
			return nil, fmt.Errorf("line %d: %w", node.Line, err)
		}
		value, err := json.Marshal(v)
		if err != nil {
			return nil, fmt.Errorf("line %d: %s has no form in JSON", node.Line, node.Value)
		}
		return value, nil
	}
	value, err := jsontext.AppendQuote(nil, node.Value)
	if err != nil {
		return nil, fmt.Errorf("line %d: %w", node.Line, err)
	}
	return value, nil
}

func separator(i int) string {
	if i == 0 {
		return ""
	}
	return ","
}

// toYAML reads a JSON value into a YAML one, with all digits of numbers.
func toYAML(dec *jsontext.Decoder) (*yaml.Node, error) {
	token, err := dec.ReadToken()
	if err != nil {
		return nil, err
	}
	switch kind := token.Kind(); kind {
	case jsontext.KindString:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: token.String()}, nil
	case jsontext.KindBeginArray, jsontext.KindBeginObject:
		out := &yaml.Node{Kind: yaml.SequenceNode}
		if kind == jsontext.KindBeginObject {
			out.Kind = yaml.MappingNode
		}
		for dec.PeekKind() != jsontext.KindEndArray && dec.PeekKind() != jsontext.KindEndObject {
			item, err := toYAML(dec)
			if err != nil {
				return nil, err
			}
			out.Content = append(out.Content, item)
		}
		if isFlat(out) {
			out.Style = yaml.FlowStyle
		}
		_, err = dec.ReadToken()
		return out, err
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: token.String()}, nil // a number, a boolean or null
}

// isFlat reports whether a list or a mapping has so few values that one line shows it.
func isFlat(node *yaml.Node) bool {
	const most = 4
	return len(node.Content) == 0 || node.Kind == yaml.SequenceNode && len(node.Content) <= most &&
		!slices.ContainsFunc(node.Content, func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode })
}
