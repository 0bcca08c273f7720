package document

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Release returns a document that no broker owns, and whose state is the same, with as few changes
// as possible: any cluster may take it over at once.
func Release(data []byte) ([]byte, error) {
	doc, err := Decode(data)
	if err != nil || doc.Broker == nil {
		return data, err
	}
	var out []byte
	from := 0
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...)
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if tok.Kind() == '}' && dec.StackDepth() == 0 {
			return append(out, data[from:]...), nil
		}
		text := ""
		switch where := dec.StackPointer(); {
		case dec.StackDepth() == 1 && where == "/broker":
			text = "null"
		case dec.StackDepth() == 2 && where == "/osqueue/address":
			text = `""`
		}
		// tok is the name of the field, or its value if that is not replaced.
		if text == "" || tok.Kind() != '"' || dec.PeekKind() == 'n' {
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		to := int(dec.InputOffset())
		out = append(append(out, data[from:to-len(raw)]...), text...)
		from = to
	}
}
