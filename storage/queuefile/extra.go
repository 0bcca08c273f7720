package queuefile

import (
	"bytes"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// Members that are not ours, of the document and of jobs, are read into the state as
// text (fsm.Meta.Extra, fsm.Details.Extra) and written back where they were.

// extras collects the members of one object that are not known, in the order in which
// their names come first. Of equal names the last counts, as in the original.
type extras struct {
	place map[string]int // in members
	// lost is how many cannot be kept.
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

// text is the members as one object without white space, "" if there are none. Those
// past the bound of the machine are left out.
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

// extra reads a member that is not known.
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

// passed is where a member goes that has one of our names, but is somebody else's.
type passed struct{ lost *int }

// scanExtra calls fn for each member of a text of extras, with its name as it stands
// there, unquoted, and its value. It ends before what is no such text.
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

// extra appends members that are not ours. A name that is ours by now is left out: it
// would count in the place of our own member, or be taken for one.
func (a *appender) extra(text string, ours func(name string) bool) {
	scanExtra(text, func(quoted []byte, name string, value []byte) {
		if ours(name) {
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

// withoutExtra is a text of extras without some names.
func withoutExtra(text string, names []string) string {
	var left extras
	scanExtra(text, func(_ []byte, name string, value []byte) {
		if !slices.Contains(names, name) {
			left.set(name, bytes.Clone(value))
		}
	})
	return left.text()
}

// dropLater takes members that a later version of this program wrote from those that
// are nobody's: who does not know them skips them, rather than to carry them along
// while they grow old.
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

// vocabulary is the names of our members. What they are the decoder says, so that the
// two cannot differ.
type vocabulary struct{ d decoder }

func newVocabulary() *vocabulary { return &vocabulary{decoder{reader: new(reader)}} }

func (v *vocabulary) ofDocument(name string) bool { return isKnown(v.d.top, name) }
func (v *vocabulary) ofJob(name string) bool      { return isKnown(v.d.jobMember, name) }

func isKnown(find members, name string) bool {
	if find(name) != nil {
		return true
	}
	base, ok := strings.CutSuffix(name, base64Suffix)
	return ok && hasTwin(find(base))
}

// vocabulary is made when it is needed first: hardly any document has members that
// are not ours.
func (a *appender) vocabulary() *vocabulary {
	if a.known == nil {
		a.known = newVocabulary()
	}
	return a.known
}

// laterMembers are the names, at the top and in jobs, of members of ours that came
// after version 5 of log entries, the first to keep those that are not ours. A document
// names them in its header. Each new name goes in here.
var laterMembers = []string{"attemptLog"}
