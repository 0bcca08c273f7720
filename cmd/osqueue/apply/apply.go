package apply

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/cmd/osqueue/view"
)

// Commands returns the commands of this package, which use the flags and streams of g.
func Commands(g *view.Globals) []*cobra.Command {
	return []*cobra.Command{newApplyCommand(g), newExportCommand(g)}
}

// caller makes one request, or one list, within the time of a command.
type caller func(ctx context.Context, do func(context.Context) error) error

func within(g *view.Globals) caller {
	return func(ctx context.Context, do func(context.Context) error) error {
		ctx, cancel := context.WithTimeout(ctx, g.Timeout)
		defer cancel()
		return do(ctx)
	}
}

func newApplyCommand(g *view.Globals) *cobra.Command {
	name, dry, v := "", false, &vault{}
	cmd := &cobra.Command{
		Use:   "apply --file FILE",
		Short: "Make types, limits, hooks, schedules and tokens what a file says",
		Long: `Compares the settings in a YAML file with those of the cluster, and changes what differs:

  queues:                        # settings of types
    mail: {maxRunning: 5, maxAttempts: 10}
  limits:                        # limits by key
    "customer:*": {maxRunning: 2}
  hooks:
    ops: {url: "https://example.com/osqueue", on: [job.dead]}
  crons:                         # schedules
    nightly: {spec: "0 3 * * *", job: {type: report}}
  tokens:
    - {name: ci, role: producer, types: ["ci.*"]}

The fields are those of the API. A field that an entry leaves out gets its default; only
paused then stays as it is. What the file does not name stays too, and is listed. An
entry that is null is removed.

Tokens are there if one has the same name and rights; other rights make another token.
The secrets of new tokens and hooks go to files in the directory of --secrets.

The command makes one change after the other. If it fails, the changes before stay: run
it again. --dry-run prints the differences, changes nothing, and fails if there are any.
osqueue export writes such a file.`,
		Example: `  osqueue apply -f queue.yaml --dry-run
  osqueue apply -f queue.yaml --secrets secrets`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if name == "" {
				return view.Usagef("--file is missing: give the file with the settings, or - for stdin")
			}
			f, err := readFile(cmd.Context(), g, name)
			if err != nil {
				return view.Usagef("--file %s: %w", name, err)
			}
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				steps, err := plan(ctx, c, f, v, within(g))
				switch {
				case err != nil:
					return err
				case dry:
					return printDifferences(g, steps)
				}
				return run(ctx, g, c, v, steps)
			})
		},
	}
	cmd.Flags().StringVarP(&name, "file", "f", "", "file (YAML) with the settings; - is stdin")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "print the differences, and change nothing; the exit status is 1 if there are any")
	cmd.Flags().StringVar(&v.dir, "secrets", "", "directory for the secrets of new tokens and hooks, a file for each")
	return cmd
}

// signs begin the lines of printDifferences.
var signs = map[string]string{created: "+", changed: "~", removed: "-", rotated: "~"}

// printDifferences prints the steps, and fails if there are any.
func printDifferences(g *view.Globals, steps []step) error {
	differ := false
	for _, s := range steps {
		differ = differ || s.Action != kept
		lines := []string{signs[s.Action] + " " + s.object()}
		switch {
		case g.JSON:
			if err := g.WriteJSON(s); err != nil {
				return err
			}
			continue
		case s.Action == kept:
			continue
		case s.Action == created:
			lines[0] += " " + text(s.Entry)
		case s.Action == rotated:
			lines[0] += " secret"
		case s.Action == changed:
			lines = nil
			for _, d := range s.Fields {
				lines = append(lines, fmt.Sprintf("~ %s %s: %s -> %s", s.object(), d.Field, orDefault(d.From), orDefault(d.To)))
			}
		}
		if err := g.Printf("%s\n", strings.Join(lines, "\n")); err != nil {
			return err
		}
	}
	if err := printKept(g, steps); err != nil || !differ {
		return err
	}
	return view.SilentError{}
}

func orDefault(value jsontext.Value) string {
	if value == nil {
		return "default"
	}
	return string(value)
}

// text returns an entry as one line of JSON.
func text(e entry) string {
	line, err := json.Marshal(e, ordered)
	if err != nil {
		return err.Error()
	}
	return string(line)
}

// keptShown is how many entries that are not in the file are named.
const keptShown = 20

// printKept says on stderr what the cluster has and the parts of the file do not.
func printKept(g *view.Globals, steps []step) error {
	var names []string
	for _, s := range steps {
		if s.Action == kept {
			names = append(names, s.object())
		}
	}
	if len(names) == 0 || g.JSON {
		return nil
	}
	more := ""
	if n := len(names) - keptShown; n > 0 {
		names, more = names[:keptShown], fmt.Sprintf(" and %d more", n)
	}
	return view.WritePlain(g.Err, fmt.Sprintf("not in the file, and left as they are: %s%s\n", strings.Join(names, ", "), more))
}

// run makes the steps.
func run(ctx context.Context, g *view.Globals, c *client.Client, v *vault, steps []step) error {
	todo := slices.DeleteFunc(slices.Clone(steps), func(s step) bool { return s.Action == kept })
	var errs []error
	for i := range todo {
		errs = append(errs, v.check(&todo[i]))
	}
	if err := errors.Join(errs...); err != nil {
		return &view.UsageError{Err: err}
	}
	for i := range todo {
		s := &todo[i]
		if err := makeStep(ctx, g, c, v, s); err != nil {
			return fmt.Errorf("%s, line %d: %w\n%d of %d changes were made; run the command again for the others", s.object(), s.line, err, i, len(todo))
		}
		if err := printDone(g, s); err != nil {
			return err
		}
	}
	if len(todo) == 0 && !g.JSON {
		if err := g.Printf("no differences\n"); err != nil {
			return err
		}
	}
	return printKept(g, steps)
}

// makeStep makes the call of a step, and stores its secret.
func makeStep(ctx context.Context, g *view.Globals, c *client.Client, v *vault, s *step) error {
	if s.Secret != "" {
		if err := v.begin(s.Secret); err != nil {
			return err
		}
	}
	secret := ""
	err := within(g)(ctx, func(ctx context.Context) (err error) {
		secret, err = s.do(ctx, c)
		return err
	})
	if err != nil || s.Secret == "" || secret == "" {
		return err
	}
	return v.end(s.Secret, secret)
}

func printDone(g *view.Globals, s *step) error {
	if g.JSON {
		return g.WriteJSON(view.Written(g, *s))
	}
	about := ""
	if s.Action == changed {
		var fields []string
		for _, d := range s.Fields {
			fields = append(fields, d.Field)
		}
		about = ": " + strings.Join(fields, ", ")
	}
	if s.Secret != "" {
		about += "; its secret is in " + s.Secret
	}
	return g.Printf("%s %s%s\n", s.Action, s.object(), about)
}

func newExportCommand(g *view.Globals) *cobra.Command {
	return &cobra.Command{
		Use:   "export",
		Short: "Write types, limits, hooks, schedules and tokens as a file for apply",
		Long: `Writes the settings of the cluster as YAML, for osqueue apply: applied to the same cluster
it changes nothing, and applied to an empty one it makes the same settings. Secrets, the
reasons and ends of pauses, and tokens that expire are not in it. Encrypted payloads of
schedules stay encrypted. Parts that the token may not read are left out, with a note.`,
		Example: `  osqueue export > queue.yaml`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return g.Open(cmd.Context(), func(ctx context.Context, c *client.Client) error {
				document, err := export(ctx, g, c)
				if err != nil {
					return err
				}
				if g.JSON {
					return g.WriteJSON(document)
				}
				return writeYAML(g, document)
			})
		},
	}
}

// export reads the settings of the cluster, by part.
func export(ctx context.Context, g *view.Globals, c *client.Client) (map[string]any, error) {
	document := make(map[string]any)
	read := func(name string, list func(context.Context) (int, any, error)) error {
		return within(g)(ctx, func(ctx context.Context) error {
			n, all, err := list(ctx)
			switch {
			case client.HasTag(err, v1.TagForbidden):
				return view.WritePlain(g.Err, name+" are left out: "+err.Error()+"\n")
			case err == nil && n > 0:
				document[name] = all
			}
			return err
		})
	}
	for _, p := range parts {
		err := read(p.name, func(ctx context.Context) (int, any, error) {
			all, err := p.list(ctx, c)
			return len(all), all, err
		})
		if err != nil {
			return nil, err
		}
	}
	return document, read(partTokens, func(ctx context.Context) (int, any, error) {
		tokens, err := listTokens(ctx, c)
		var all []entry
		for _, t := range tokens {
			if nameOf(t.rights) != "" && !slices.ContainsFunc(all, func(e entry) bool { return len(differences("", e, t.rights)) == 0 }) {
				all = append(all, t.rights)
			}
		}
		slices.SortFunc(all, func(a, b entry) int { return strings.Compare(nameOf(a)+text(a), nameOf(b)+text(b)) })
		return len(all), all, err
	})
}

// writeYAML writes the parts in their order.
func writeYAML(g *view.Globals, document map[string]any) error {
	var out bytes.Buffer
	out.WriteString("# Settings of a queue, for: osqueue apply -f FILE\n")
	for _, name := range partNames() {
		all, there := document[name]
		if !there {
			continue
		}
		line, err := json.Marshal(all, ordered)
		if err != nil {
			return err
		}
		node, err := toYAML(jsontext.NewDecoder(bytes.NewReader(line)))
		if err != nil {
			return err
		}
		enc := yaml.NewEncoder(&out)
		enc.SetIndent(2)
		if err := errors.Join(enc.Encode(map[string]*yaml.Node{name: node}), enc.Close()); err != nil {
			return fmt.Errorf("write as YAML: %w", err)
		}
	}
	return view.Write(g.Out, out.String())
}
