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
	if err != nil {
		return nil, err
	}
	if doc.Broker == nil {
		return data, nil
	}
	// The state has the address of its broker only if it differs from the header's.
	var inState string
	if doc.Header != nil && doc.Meta.Broker.Address == doc.Header.Address {
		quoted, err := jsontext.AppendQuote(nil, doc.Header.Address)
		if err != nil {
			return nil, fmt.Errorf("%w: the address of the broker: %w", ErrFormat, err)
		}
		inState = `"address":` + string(quoted) + ","
	}
	places, err := registrationOf(data, inState)
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

// registrationOf returns the places of the broker in a document, in their order, with the texts
// that mean that there is none, and the place of the first field of the state, with inState.
func registrationOf(data []byte, inState string) (places []replacement, err error) {
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), anyJSON...)
	for {
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		if tok.Kind() == '}' && dec.StackDepth() == 0 {
			return places, nil
		}
		text, next := "", byte('"')
		switch where := dec.StackPointer(); {
		case dec.StackDepth() == 1 && where == "/broker":
			text = "null"
		case dec.StackDepth() == 2 && where == "/osqueue/address":
			text = `""`
		case dec.StackDepth() == 2 && where == "/osqueue/state" && inState != "":
			text, next = inState, '{'
		}
		if text == "" || dec.PeekKind() != jsontext.Kind(next) {
			continue
		}
		if next == '{' {
			if _, err := dec.ReadToken(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrFormat, err)
			}
			at := int(dec.InputOffset())
			places = append(places, replacement{span{at, at}, text})
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		to := int(dec.InputOffset())
		places = append(places, replacement{span{to - len(raw), to}, text})
	}
}
