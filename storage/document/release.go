package document

import (
	"bytes"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
)

// Release returns a document that no broker owns, and that is otherwise the same, byte for byte:
// any cluster may take it over at once.
func Release(data []byte) ([]byte, error) {
	doc, err := Decode(data)
	if err != nil {
		return nil, err
	}
	if doc.Broker == nil {
		return data, nil
	}
	places, err := registrationOf(data)
	if err != nil {
		return nil, err
	}
	var out []byte
	from := 0
	for _, p := range places {
		out = append(append(out, data[from:p.at.from]...), p.text...)
		from = p.at.to
	}
	return append(out, data[from:]...), nil
}

// replacement is a text that replaces a part of a document.
type replacement struct {
	at   span
	text string
}

// registrationOf returns the places of the broker in a document, in their order, with the values
// that mean that there is none.
func registrationOf(data []byte) (places []replacement, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...)
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		switch where := dec.StackPointer(); {
		case tok.Kind() == '}' && dec.StackDepth() == 0:
			return places, nil
		case dec.StackDepth() > 2, where != "/broker" && where != "/osqueue/address":
			continue
		case tok.Kind() == '"' && dec.PeekKind() == '"': // the name
			raw, err := dec.ReadValue()
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrFormat, err)
			}
			to := int(dec.InputOffset())
			text := "null"
			if where == "/osqueue/address" {
				text = `""`
			}
			places = append(places, replacement{span{to - len(raw), to}, text})
		}
	}
}
