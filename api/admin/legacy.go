package admin

import (
	"bytes"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/api/core"
)

// ForLegacy returns a document as legacy clients may see it: without the hashes of tokens. A
// large document, whose entries may have them, has no jobs and is refused.
func ForLegacy(doc []byte) ([]byte, error) {
	d := jsontext.NewDecoder(bytes.NewReader(doc), core.Lenient)
	if _, err := d.ReadToken(); err != nil {
		return nil, err
	}
	out, jobs := []byte{'{'}, false
	for d.PeekKind() == jsontext.KindString {
		name, err := d.ReadToken()
		if err != nil {
			return nil, err
		}
		member := name.String()
		value, err := d.ReadValue()
		if err != nil {
			return nil, err
		}
		jobs = jobs || member == "jobs"
		if member == "tokens" {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		if out, err = jsontext.AppendQuote(out, member); err != nil {
			return nil, err
		}
		out = append(append(out, ':'), value...)
	}
	if !jobs {
		return nil, core.Fail(core.Forbidden, "the queue is too large for one document, and legacy clients cannot read its log")
	}
	return append(out, '}'), nil
}
