package runner

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/template"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	v1 "osqueue/client/api/v1"
	"osqueue/client/worker"
	"osqueue/internal/sandbox"
)

// commandLine is a command line, split into words. Text from a job is never parsed,
// neither as a line nor as a template.
type commandLine []lineWord

// lineWord is a word of one of three kinds: a template, which becomes one argument; a
// word with variables, which is expanded for each job; or a word without variables,
// whose arguments are known.
type lineWord struct {
	template *template.Template
	word     *syntax.Word
	fixed    []string
}

// parseLine splits a command line. It returns an error for syntax that needs a shell.
func parseLine(line string, box *sandbox.Box) (commandLine, error) {
	var parsed commandLine
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangPOSIX)).WordsSeq(strings.NewReader(line)) {
		if err != nil {
			return nil, fmt.Errorf("command %q cannot be split into words (%w); quote it, or write sh -c '…'", line, err)
		}
		word, err := parseWord(w)
		if err != nil {
			return nil, fmt.Errorf("command %q: %w", line, err)
		}
		parsed = append(parsed, word)
	}
	if len(parsed) == 0 {
		return nil, errors.New("the command is empty: give a program")
	}
	if parsed[0].template != nil {
		return nil, fmt.Errorf("command %q: the program must not depend on the payload", line)
	}
	if program := parsed[0].word.Lit(); program != "" {
		if err := box.Look(program); err != nil {
			return nil, fmt.Errorf("command %q: %w", line, err)
		}
	}
	return parsed, nil
}

func parseWord(w *syntax.Word) (lineWord, error) {
	env := &environ{}
	fields, err := expandWord(w, env)
	if err != nil {
		return lineWord{}, err
	}
	var source strings.Builder
	if err := syntax.NewPrinter().Print(&source, w); err != nil {
		return lineWord{}, err
	}
	if !strings.Contains(source.String(), "{{") {
		if env.asked {
			fields = nil
		}
		return lineWord{word: w, fixed: fields}, nil
	}
	if len(fields) != 1 {
		return lineWord{}, fmt.Errorf("template %s must be one word: quote its variables", source.String())
	}
	t, err := template.New("argument").Option("missingkey=error").Parse(fields[0])
	if err != nil {
		return lineWord{}, fmt.Errorf("template %s: %w", source.String(), err)
	}
	return lineWord{template: t}, nil
}

func expandWord(w *syntax.Word, env *environ) ([]string, error) {
	args, err := expand.Fields(&expand.Config{Env: env}, w)
	if err != nil {
		return nil, fmt.Errorf("expand (for $(…) write sh -c '…'): %w", err)
	}
	return args, nil
}

// environ contains the variables of the job and of the worker. It implements
// expand.Environ.
type environ struct {
	job   []string
	asked bool // whether Get was called for a variable other than IFS, which every expansion reads
}

// Get returns the variable name. Variables of the job come first.
func (e *environ) Get(name string) expand.Variable {
	e.asked = e.asked || name != "IFS"
	for _, v := range e.job {
		if value, ok := strings.CutPrefix(v, name+"="); ok {
			return expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
		}
	}
	value, set := os.LookupEnv(name)
	if !set {
		return expand.Variable{}
	}
	return expand.Variable{Set: true, Exported: true, Kind: expand.String, Str: value}
}

// Each calls fn for no variable: only ${!prefix*}, which POSIX lacks, would need it.
func (e *environ) Each(func(name string, v expand.Variable) bool) {}

// args returns the program and its arguments for a job.
func (l commandLine) args(job worker.Job) ([]string, error) {
	var args []string
	var dot any
	for _, w := range l {
		if w.fixed != nil {
			args = append(args, w.fixed...)
			continue
		}
		if w.template == nil {
			fields, err := expandWord(w.word, &environ{job: jobEnv(job)})
			if err != nil {
				return nil, err
			}
			args = append(args, fields...)
			continue
		}
		if dot == nil {
			var err error
			if dot, err = templateDot(job.Payload); err != nil {
				return nil, err
			}
		}
		var text strings.Builder
		if err := w.template.Execute(&text, dot); err != nil {
			return nil, fmt.Errorf("the payload does not fit the command: %w", err)
		}
		args = append(args, text.String())
	}
	if len(args) == 0 {
		return nil, errors.New("the command is empty after its variables were expanded")
	}
	return args, nil
}

// The values of a payload in templates print strings as they are, numbers as they are
// written, and objects, lists and null as JSON. Null is a list without items: it counts
// as false, and a range over it is empty.
type (
	templateNumber string
	templateObject map[string]any
	templateList   []any
	templateNull   []any
)

func (o templateObject) String() string { return jsonText(map[string]any(o)) }
func (l templateList) String() string   { return jsonText([]any(l)) }
func (templateNull) String() string     { return "null" }

// MarshalJSON writes a null within an object or a list.
func (templateNull) MarshalJSON() ([]byte, error) { return []byte("null"), nil }

// MarshalJSON writes the number as it was read.
func (n templateNumber) MarshalJSON() ([]byte, error) { return []byte(n), nil }

func jsonText(v any) string {
	text, err := json.Marshal(v, json.Deterministic(true))
	if err != nil {
		return "" // not reached: it was JSON
	}
	return string(text)
}

// templateDot decodes a payload. An empty payload is null.
func templateDot(payload []byte) (any, error) {
	if len(payload) == 0 {
		payload = []byte("null")
	}
	var v any
	numbers := json.UnmarshalFromFunc(func(d *jsontext.Decoder, out *any) error {
		if d.PeekKind() != '0' {
			return errors.ErrUnsupported
		}
		text, err := d.ReadValue()
		*out = templateNumber(text)
		return err
	})
	if err := readPayload(payload, &v, json.WithUnmarshalers(numbers)); err != nil {
		return nil, err
	}
	return templateValue(v), nil
}

func templateValue(v any) any {
	switch v := v.(type) {
	case map[string]any:
		for name, value := range v {
			v[name] = templateValue(value)
		}
		return templateObject(v)
	case []any:
		for i, value := range v {
			v[i] = templateValue(value)
		}
		return templateList(v)
	case nil:
		return templateNull(nil)
	}
	return v
}

func jobEnv(job worker.Job) []string {
	env := []string{
		"OSQUEUE_JOB_ID=" + job.ID,
		"OSQUEUE_JOB_TYPE=" + job.Type,
		"OSQUEUE_ATTEMPT=" + strconv.Itoa(job.Attempt),
		"OSQUEUE_FENCING_TOKEN=" + strconv.FormatUint(job.Token, 10),
	}
	if parent := job.Headers[v1.HeaderTraceparent]; v1.TraceID(parent) != "" {
		env = append(env, "TRACEPARENT="+parent)
	}
	return env
}
