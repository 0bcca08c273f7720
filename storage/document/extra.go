package document

import (
	"bytes"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The reader keeps unknown fields of the document and of jobs as text in the state
// (fsm.Meta.Extra, fsm.Details.Extra), and the appender writes them back at the same level.

// extras collects the unknown fields of one object, in the order in which their names first
// occur. Of equal names the last value counts, as in the legacy broker.
type extras struct {
	place map[string]int // index in members
	// lost is the number of fields that cannot be kept.
	lost    int
	members []extraMember
}

type extraMember struct {
	name  string
	value []byte
}

func (x *extras) set(name string, value []byte) {
	if i, there := x.place[name]; there {
		x.members[i].value = value
		return
	}
	if x.place == nil {
		x.place = make(map[string]int)
	}
	x.place[name] = len(x.members)
	x.members = append(x.members, extraMember{name, value})
}

// text returns the fields as one object without white space, "" if there are none. It
// leaves out fields beyond the bound of the machine.
func (x *extras) text() string {
	if len(x.members) == 0 {
		return ""
	}
	buf := []byte{'{'}
	for _, m := range x.members {
		before := len(buf)
		if before > len("{") {
			buf = append(buf, ',')
		}
		buf, _ = jsontext.AppendQuote(buf, m.name) // unquote has made it UTF-8
		buf = append(append(buf, ':'), m.value...)
		if len(buf)+len("}") > fsm.ExtraMax {
			buf = buf[:before]
			x.lost++
		}
	}
	if len(buf) == len("{") {
		return ""
	}
	return string(append(buf, '}'))
}

// extra reads an unknown field.
func (r *reader) extra(name string, into *extras) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	value := jsontext.Value(bytes.ToValidUTF8(bytes.Clone(raw), []byte("\ufffd")))
	if err := value.Compact(); err != nil {
		return r.syntax(err)
	}
	into.set(name, value)
	return nil
}

// passed is the destination of a field that has a name of this package but belongs to
// another program. The reader skips and counts it.
type passed struct{ lost *int }

// scanExtra calls fn for each field of a text of extras, with its name as written, its
// unquoted name, and its value. It stops at the first syntax error.
func scanExtra(text string, fn func(quoted []byte, name string, value []byte)) {
	if text == "" {
		return
	}
	dec := jsontext.NewDecoder(bytes.NewBufferString(text), anyJSON...)
	if _, err := dec.ReadToken(); err != nil {
		return
	}
	for dec.PeekKind() == '"' {
		raw, err := dec.ReadValue()
		if err != nil {
			return
		}
		quoted, name := bytes.Clone(raw), unquote(raw)
		if raw, err = dec.ReadValue(); err != nil {
			return
		}
		fn(quoted, name, raw)
	}
}

// extra appends unknown fields. It leaves out a name that this package has used since: the
// field would replace the package's own field, or be read as one.
func (a *appender) extra(text string, ours func(name string) bool) {
	scanExtra(text, func(quoted []byte, name string, value []byte) {
		if ours(name) {
			a.lossy = true
			return
		}
		a.next()
		a.buf = append(append(append(a.buf, quoted...), ':'), value...)
	})
}

func (a *appender) documentExtra(m *fsm.Meta) {
	if m.Extra != "" {
		a.extra(m.Extra, a.vocabulary().ofDocument)
	}
}

func (a *appender) jobExtra(d *fsm.Details) {
	if d.Extra != "" {
		a.extra(d.Extra, a.vocabulary().ofJob)
	}
}

// vocabulary is the set of this package's field names. It asks the decoder, so that the two
// cannot differ.
type vocabulary struct{ d decoder }

func newVocabulary() *vocabulary { return &vocabulary{decoder{reader: new(reader)}} }

func (v *vocabulary) ofDocument(name string) bool { return isKnown(v.d.top, name) }
func (v *vocabulary) ofJob(name string) bool      { return isKnown(v.d.jobMember, name) }

func isKnown(find members, name string) bool {
	if find(name) != nil {
		return true
	}
	base, ok := strings.CutSuffix(name, base64Suffix)
	return ok && hasBase64Field(find(base))
}

// vocabulary returns the vocabulary, which it creates on the first use: few documents have
// unknown fields.
func (a *appender) vocabulary() *vocabulary {
	if a.known == nil {
		a.known = newVocabulary()
	}
	return a.known
}
