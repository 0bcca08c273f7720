package document

import (
	"bytes"
	"encoding/hex"
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
	var sum span // digits of the checksum in out
	from := 0
	for _, p := range places {
		out = append(append(out, data[from:p.at.from]...), p.text...)
		from = p.at.to
		if p.sum {
			sum = span{len(out) - digits, len(out)}
		}
	}
	out = append(out, data[from:]...)
	if sum.to > 0 && !doc.Edited {
		of := sumAround(out, sum)
		hex.Encode(out[sum.from:], of[:])
	}
	return out, nil
}

// replacement is a text that replaces a part of a document.
type replacement struct {
	at   span
	text string
	sum  bool // the digits of the document's checksum
}

// registrationOf returns the places of the broker in a document, in their order, with the texts
// that mean that there is none, the place of the first field of the state, with inState, and that
// of the document's checksum.
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
		text, next, sum := "", byte('"'), false
		switch where := dec.StackPointer(); {
		case dec.StackDepth() == 1 && where == "/broker":
			text = "null"
		case dec.StackDepth() == 2 && where == "/osqueue/address":
			text = `""`
		case dec.StackDepth() == 2 && where == "/osqueue/state" && inState != "":
			text, next = inState, '{'
		case dec.StackDepth() == 3 && where == "/osqueue/sums/document":
			text, sum = "the digits", true
		}
		if text == "" || dec.PeekKind() != jsontext.Kind(next) {
			continue
		}
		if next == '{' {
			if _, err := dec.ReadToken(); err != nil {
				return nil, fmt.Errorf("%w: %w", ErrFormat, err)
			}
			at := int(dec.InputOffset())
			places = append(places, replacement{at: span{at, at}, text: text})
			continue
		}
		raw, err := dec.ReadValue()
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrFormat, err)
		}
		to := int(dec.InputOffset())
		p := replacement{at: span{to - len(raw), to}, text: text}
		if sum {
			p = replacement{at: span{p.at.from + 1, to - 1}, text: string(raw[1 : len(raw)-1]), sum: len(raw) == digits+2}
		}
		places = append(places, p)
	}
}
