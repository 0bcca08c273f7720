package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm/fsmpb"
)

// Members of queue.json that are not ours. A person, or a tool beside a broker of
// the older generation, has put them there, into the document or into a job, and
// brokers of that generation write them back for ever. The machine carries them as
// text, Meta.Extra and Details.Extra, and never looks inside: one JSON object without
// white space, in the order in which it was read; "" if there are none. They come in
// with a document that is adopted, and by SetExtra when one is edited.

// ExtraMax bounds the text of one job's members, and of the document's, in bytes: so
// that a log entry has room for some.
const ExtraMax = 64 << 10

var errExtra = errors.New("its members that are not ours are no JSON object without white space, or too long")

// checkExtra refuses what could not be written into a document again.
func checkExtra(extra string) error {
	if extra == "" {
		return nil
	}
	if len(extra) > ExtraMax || extra[0] != '{' || extra == "{}" || !utf8.ValidString(extra) {
		return errExtra
	}
	v := jsontext.Value(extra)
	if v.Compact() != nil || string(v) != extra {
		return errExtra
	}
	return nil
}

// setExtra replaces the members of a job, or of the document.
func (m *Machine) setExtra(op *fsmpb.SetExtra) Result {
	if op.JobId == "" {
		m.meta.Extra = strings.Clone(op.Extra)
		return Result{}
	}
	old := m.ids[op.JobId]
	if old == nil {
		return Result{Code: NotFound}
	}
	j := *old
	j.changeDetails(func(d *Details) { d.Extra = strings.Clone(op.Extra) })
	m.putInPlace(old, &j)
	return Result{Jobs: one(&j)}
}
