package apply

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"go.yaml.in/yaml/v3"

	"osqueue/cmd/osqueue/view"
)

// fileMax bounds a file, in bytes.
const fileMax = 32 << 20

// partTokens is the name of the part that is a list.
const partTokens = "tokens"

// partNames returns the names of all parts, in their order.
func partNames() (names []string) {
	for _, p := range parts {
		names = append(names, p.name)
	}
	return append(names, partTokens)
}

// wanted is an entry of the file.
type wanted struct {
	name   string
	line   int
	fields entry // nil: it is to be removed
	paused bool  // the file says whether it is paused
}

// file is a file of settings.
type file struct {
	entries map[string][]wanted // by part; a part that is not in the file is not compared
}

// readFile reads a file of settings; - is stdin. The error has all mistakes that need no cluster.
func readFile(ctx context.Context, g *view.Globals, name string) (*file, error) {
	in, err := g.OpenInput(ctx, name)
	if err != nil {
		return nil, err
	}
	defer in.Close()
	dec := yaml.NewDecoder(io.LimitReader(in, fileMax))
	var document yaml.Node
	if err := dec.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document, or is too large")
	}
	f := &file{entries: make(map[string][]wanted)}
	if len(document.Content) == 0 {
		return f, nil
	}
	var errs []error
	each(document.Content[0], &errs, func(key, value *yaml.Node) {
		f.entries[key.Value], err = readPart(key, value)
		errs = append(errs, err)
	})
	return f, errors.Join(errs...)
}

// each calls do for the entries of a mapping.
func each(node *yaml.Node, errs *[]error, do func(key, value *yaml.Node)) {
	if node.Kind != yaml.MappingNode {
		*errs = append(*errs, fmt.Errorf("line %d: write a mapping", node.Line))
		return
	}
	seen := make(map[string]bool)
	for i := 0; i < len(node.Content); i += 2 {
		key := node.Content[i]
		if seen[key.Value] {
			*errs = append(*errs, fmt.Errorf("line %d: %q is given twice", key.Line, key.Value))
			continue
		}
		seen[key.Value] = true
		do(key, node.Content[i+1])
	}
}

func readPart(key, value *yaml.Node) (list []wanted, err error) {
	if key.Value == partTokens {
		return readTokens(value)
	}
	i := slices.IndexFunc(parts, func(p part) bool { return p.name == key.Value })
	if i < 0 {
		return nil, fmt.Errorf("line %d: unknown part %q%s", key.Line, key.Value, view.Suggest(key.Value, partNames()))
	}
	var errs []error
	each(value, &errs, func(key, value *yaml.Node) {
		w := wanted{name: key.Value, line: key.Line}
		if value.ShortTag() != "!!null" {
			w.fields, err = parts[i].read(value)
			errs = append(errs, err)
			w.paused = value.Kind == yaml.MappingNode && slices.ContainsFunc(value.Content, func(n *yaml.Node) bool { return n.Value == "paused" })
		}
		list = append(list, w)
	})
	return list, errors.Join(errs...)
}

func readTokens(list *yaml.Node) (tokens []wanted, err error) {
	if list.Kind != yaml.SequenceNode {
		return nil, fmt.Errorf("line %d: write a list of tokens", list.Line)
	}
	var errs []error
	for _, item := range list.Content {
		rights, err := readAs(tidyToken)(item)
		if name := nameOf(rights); err == nil && name == "" {
			err = fmt.Errorf("line %d: a token needs a name", item.Line)
		}
		errs = append(errs, err)
		tokens = append(tokens, wanted{name: nameOf(rights), line: item.Line, fields: rights})
	}
	return tokens, errors.Join(errs...)
}
