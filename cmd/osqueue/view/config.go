package view

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Fields are the fields of a YAML mapping.
type Fields map[string]yaml.Node

// ParseFields reads a YAML document that is a mapping.
func ParseFields(data []byte) (Fields, error) {
	fields := make(Fields)
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&fields); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document")
	}
	return fields, nil
}

// Take removes a field and decodes it into to, if it is there.
func (f Fields) Take(name string, to any) error {
	node, there := f[name]
	delete(f, name)
	if !there {
		return nil
	}
	return node.Decode(to)
}

// Set sets flags to the fields of their names. A flag that is set already keeps its value. A field without a
// flag is an error.
func (f Fields) Set(flags *pflag.FlagSet) error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(f)) {
		node, flag := f[name], flags.Lookup(name)
		if flag == nil {
			errs = append(errs, fmt.Errorf("line %d: unknown setting %q", node.Line, name))
			continue
		}
		if flag.Changed {
			continue
		}
		items, err := itemsOf(&node)
		if list, ok := flag.Value.(pflag.SliceValue); err == nil && ok && node.Kind == yaml.SequenceNode {
			err, flag.Changed = list.Replace(items), true // an item may have commas
		} else if err == nil {
			err, flag.Changed = flag.Value.Set(strings.Join(items, ",")), true
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", node.Line, name, err))
		}
	}
	return errors.Join(errs...)
}

// itemsOf returns the values of a field, or the one that it has.
func itemsOf(node *yaml.Node) ([]string, error) {
	switch {
	case node.Kind == yaml.ScalarNode && node.Tag != "!!null":
		return []string{node.Value}, nil
	case node.Kind == yaml.SequenceNode:
		items := make([]string, len(node.Content))
		for i, item := range node.Content {
			if item.Kind != yaml.ScalarNode {
				return nil, errors.New("write a list of values")
			}
			items[i] = item.Value
		}
		return items, nil
	}
	return nil, errors.New("write a value or a list of values")
}
