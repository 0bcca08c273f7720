package view

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"go.yaml.in/yaml/v3"
)

// yamlOf converts a JSON value to YAML. The order of fields and the digits of numbers
// stay.
func yamlOf(value []byte) (string, error) {
	d := jsontext.NewDecoder(bytes.NewReader(value), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
	node, err := yamlNode(d)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(node); err != nil {
		return "", err
	}
	err = e.Close()
	return escaped(b.String()), err
}

// yamlNode reads the next value of d.
func yamlNode(d *jsontext.Decoder) (*yaml.Node, error) {
	t, err := d.ReadToken()
	if err != nil {
		return nil, err
	}
	switch t.Kind() {
	case jsontext.KindBeginObject:
		return yamlParts(d, &yaml.Node{Kind: yaml.MappingNode}, jsontext.KindEndObject)
	case jsontext.KindBeginArray:
		return yamlParts(d, &yaml.Node{Kind: yaml.SequenceNode}, jsontext.KindEndArray)
	case jsontext.KindString:
		node := &yaml.Node{} // Encode quotes what YAML 1.1 takes for a bool or a number
		err := node.Encode(strings.ToValidUTF8(t.String(), "\uFFFD"))
		if strings.IndexFunc(t.String(), isEscaped) >= 0 {
			node.Style = yaml.DoubleQuotedStyle
		}
		return node, err
	case jsontext.KindNumber:
		tag := "!!int"
		if strings.ContainsAny(t.String(), ".eE") {
			tag = "!!float"
		}
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: t.String()}, nil
	case jsontext.KindNull:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Value: "null"}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!bool", Value: t.String()}, nil
}

// yamlParts reads the names and values of an object, or the values of an array, up to its
// end.
func yamlParts(d *jsontext.Decoder, whole *yaml.Node, end jsontext.Kind) (*yaml.Node, error) {
	for d.PeekKind() != end {
		part, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		whole.Content = append(whole.Content, part)
	}
	_, err := d.ReadToken()
	return whole, err
}
