package view

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.yaml.in/yaml/v3"
)

// Settings are the settings of a program, each of which is a flag, for osqueue config. A flag comes before its environment
// variable, that before the file of --config, and that before the default.
type Settings struct {
	Flags *pflag.FlagSet // in the order in which they are shown
	File  *string        // of --config; "": none
	// Load reads the environment and the file. It is called when the command line was parsed.
	Load func(cmd *cobra.Command) error
	// Check returns the error with which a start would end, and what may be a mistake.
	Check func() (warnings []string, err error)
	// More returns the lines about parts of the file that are no flags; nil: there are none.
	More func() []SettingLine
	// Redact returns the value of a setting without secrets; nil: no setting has any.
	Redact func(name, value string) string
}

// SettingLine is a setting as osqueue config show prints it.
type SettingLine struct {
	Setting string `json:"setting"`
	Value   string `json:"value"`
	Source  string `json:"source"`
}

// Lines returns all settings.
func (s *Settings) Lines() (lines []SettingLine) {
	s.Flags.VisitAll(func(f *pflag.Flag) {
		value := f.Value.String()
		if s.Redact != nil {
			value = s.Redact(f.Name, value)
		}
		lines = append(lines, SettingLine{Setting: f.Name, Value: value, Source: Source(f)})
	})
	if s.More != nil {
		lines = append(lines, s.More()...)
	}
	return lines
}

// The sources of values that are no environment variable and no file.
const (
	SourceFlag    = "flag"
	SourceDefault = "default"
)

// sourceKey is the annotation of a flag that has its source.
const sourceKey = "osqueue_source"

// Source returns where the value of a flag comes from: SourceFlag, SourceDefault, an environment variable, or a file and
// its line.
func Source(f *pflag.Flag) string {
	switch from := f.Annotations[sourceKey]; {
	case len(from) > 0:
		return from[0]
	case f.Changed:
		return SourceFlag
	}
	return SourceDefault
}

// SetSource notes where the value of a flag comes from.
func SetSource(f *pflag.Flag, source string) {
	if f.Annotations == nil {
		f.Annotations = make(map[string][]string)
	}
	f.Annotations[sourceKey] = []string{source}
}

// FromEnv sets every flag that is not on the command line to the value of its environment variable, if that is set.
func FromEnv(flags *pflag.FlagSet, getenv func(string) string) error {
	var errs []error
	flags.VisitAll(func(f *pflag.Flag) {
		name := EnvOf(f.Name)
		value := getenv(name)
		if f.Changed || value == "" {
			return
		}
		if err := flags.Set(f.Name, value); err != nil {
			errs = append(errs, &UsageError{Err: fmt.Errorf("environment variable %s: %w", name, err)})
		}
		SetSource(f, name)
	})
	return errors.Join(errs...)
}

// EnvOf returns the name of a flag's environment variable.
func EnvOf(flag string) string {
	return EnvPrefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// Fields are the fields of a YAML mapping in a file.
type Fields struct {
	path  string
	nodes map[string]yaml.Node
}

// ReadFields reads a file with a YAML document that is a mapping.
func ReadFields(path string) (*Fields, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	f := &Fields{path: path}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	if err := dec.Decode(&f.nodes); err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if err := dec.Decode(&yaml.Node{}); !errors.Is(err, io.EOF) {
		return nil, errors.New("the file has more than one YAML document")
	}
	return f, nil
}

// TakeList removes a field that is a list of mappings, and returns these and their lines.
func (f *Fields) TakeList(name string) (list []*Fields, sources []string, err error) {
	node, there := f.nodes[name]
	delete(f.nodes, name)
	if !there {
		return nil, nil, nil
	}
	var items []map[string]yaml.Node
	if err := node.Decode(&items); err != nil {
		return nil, nil, err
	}
	for i, nodes := range items {
		list = append(list, &Fields{path: f.path, nodes: nodes})
		sources = append(sources, f.at(node.Content[i].Line))
	}
	return list, sources, nil
}

// Unfold puts the fields of a field that is a mapping in its place, with its prefix before their names.
func (f *Fields) Unfold(name, prefix string) error {
	node, there := f.nodes[name]
	delete(f.nodes, name)
	var inner map[string]yaml.Node
	if !there {
		return nil
	}
	err := node.Decode(&inner)
	for name, node := range inner {
		f.nodes[prefix+name] = node
	}
	return err
}

func (f *Fields) at(line int) string { return fmt.Sprintf("%s:%d", f.path, line) }

// Set sets flags to the fields of their names. A flag that is set already keeps its value. A field without a
// flag is an error. A path that is not absolute counts from the directory of the file.
func (f *Fields) Set(flags *pflag.FlagSet) error {
	var errs []error
	byLine := func(a, b string) int { return cmp.Compare(f.nodes[a].Line, f.nodes[b].Line) }
	for _, name := range slices.SortedFunc(maps.Keys(f.nodes), byLine) {
		node, flag := f.nodes[name], flags.Lookup(name)
		if flag == nil {
			errs = append(errs, fmt.Errorf("line %d: unknown setting %q%s", node.Line, name, Suggest(name, namesOf(flags))))
			continue
		}
		if flag.Changed {
			continue
		}
		items, err := itemsOf(&node)
		for i := range items {
			items[i] = f.resolve(name, items[i])
		}
		if list, ok := flag.Value.(pflag.SliceValue); err == nil && ok && node.Kind == yaml.SequenceNode {
			err, flag.Changed = list.Replace(items), true // an item may have commas
		} else if err == nil {
			err, flag.Changed = flag.Value.Set(strings.Join(items, ",")), true
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("line %d: %s: %w", node.Line, name, err))
		}
		SetSource(flag, f.at(node.Line))
	}
	return errors.Join(errs...)
}

// resolve returns the value of a setting, which may be a path.
func (f *Fields) resolve(name, value string) string {
	isPath := slices.Contains(fileFlags, name) || slices.Contains(directoryFlags, name)
	if !isPath || value == "" || value == "-" || filepath.IsAbs(value) {
		return value
	}
	return filepath.Join(filepath.Dir(f.path), value)
}

func namesOf(flags *pflag.FlagSet) (names []string) {
	flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
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

// suggestions is how many names Suggest offers at most.
const suggestions = 3

// Suggest returns a question about the known names that are nearest to a name, for the end of an error, or "".
func Suggest(name string, known []string) string {
	near := &cobra.Command{SuggestionsMinimumDistance: 2}
	for _, one := range known {
		near.AddCommand(&cobra.Command{Use: one, Run: func(*cobra.Command, []string) {}})
	}
	names := near.SuggestionsFor(name)
	if len(names) == 0 {
		return ""
	}
	return "; did you mean " + strings.Join(names[:min(len(names), suggestions)], " or ") + "?"
}
