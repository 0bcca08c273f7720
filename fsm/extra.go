package fsm

import (
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm/fsmpb"
)

// This file has the unknown fields of queue.json. A person, or a tool that works with a
// legacy broker, has put them into the document or into a job, and legacy brokers write
// them back. The machine keeps them as text, in Meta.Extra and Details.Extra, and never
// reads it: one JSON object without white space, in the order in which it was read, or
// "" if there are none. They come from an adopted document, and from SetExtra when a
// document is edited.

// ExtraMax is the largest size, in bytes, of the unknown fields of one job or of the
// document, so that a log entry can hold several of them.
const ExtraMax = 64 << 10

var errExtra = errors.New("the unknown fields are not a JSON object without white space, or they are too long")

// checkExtra refuses text that cannot be written into a document again.
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

// setExtra replaces the unknown fields of a job, or of the document.
func (m *Machine) setExtra(op *fsmpb.SetExtra) Result {
	if op.JobId == "" {
		m.meta.Extra = strings.Clone(op.Extra)
		return Result{}
	}
	old := m.ids.get(op.JobId)
	if old == nil {
		return Result{Code: NotFound}
	}
	j := *old
	j.changeDetails(func(d *Details) { d.Extra = strings.Clone(op.Extra) })
	m.putInPlace(old, &j)
	return Result{Jobs: one(&j)}
}
