package document

import (
	"bytes"
	"slices"
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

// withoutExtra returns a text of extras without the given names.
func withoutExtra(text string, names []string) string {
	var left extras
	scanExtra(text, func(_ []byte, name string, value []byte) {
		if !slices.Contains(names, name) {
			left.set(name, bytes.Clone(value))
		}
	})
	return left.text()
}

// dropLater removes the fields of a later version of this program from the unknown fields.
// An older version skips such fields, because it would otherwise keep and write back
// outdated values.
func (d *decoder) dropLater() {
	if len(d.later) == 0 {
		return
	}
	d.doc.Meta.Extra = withoutExtra(d.doc.Meta.Extra, d.later)
	for _, list := range [][]*fsm.Job{d.waiting, d.others} {
		for _, j := range list {
			if j.Details().Extra == "" {
				continue
			}
			j.Det.Extra = withoutExtra(j.Det.Extra, d.later)
			j.Det = detailsOrNil(j.Det)
		}
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

// laterMembers are the names, at the top and in jobs, of fields of this package that were
// added after version 5 of log entries, the first version that keeps unknown fields. A
// document names them in its header. Add each new name here.
var laterMembers = []string{"attemptLog", "liveJobs", "claimOwner", "tokens", "figures", "headers", "quotaAccount", "hooks", "hookEvents", "claimInstance", "unconfirmed", "givenBack"}

// membersBelow10 and membersBelow11 are the numbers of laterMembers that documents below
// fsm.Level10 and below fsm.Level11 can have.
const (
	membersBelow10 = 2
	membersBelow11 = 4
)

// membersAt returns the laterMembers that a document of a feature level can have.
func membersAt(level uint32) []string {
	switch {
	case level < fsm.Level10:
		return laterMembers[:membersBelow10]
	case level < fsm.Level11:
		return laterMembers[:membersBelow11]
	}
	return laterMembers
}
