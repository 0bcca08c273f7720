package election

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// registration has the two fields that the legacy election reads of a document, and their
// places in the text.
type registration struct {
	broker    *string
	heartbeat int64

	brokerAt, heartbeatAt span
	end                   int  // the place of the closing brace
	empty                 bool // the object has no fields
}

// span is a piece of the text; the zero span is none.
type span struct{ from, to int }

func firstDocument(address string, nowMs int64) []byte {
	b := append([]byte(`{"broker":`), quote(address)...)
	b = append(b, `,"brokerHeartbeat":`...)
	b = strconv.AppendInt(b, nowMs, 10)
	return append(b, `,"jobs":[],"completedTotal":0}`...)
}

func quote(s string) []byte {
	quoted, _ := jsontext.AppendQuote(nil, s) // invalid UTF-8 is replaced
	return quoted
}

// readRegistration checks the syntax of the whole document and reads its two fields. A
// missing heartbeat counts as 0.
func readRegistration(data []byte) (registration, error) {
	var r registration
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if dec.PeekKind() != '{' {
		if _, err := dec.ReadValue(); err != nil && !errors.Is(err, io.EOF) {
			return r, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		return r, fmt.Errorf("%w: the document is not a JSON object", ErrUnreadable)
	}
	_, _ = dec.ReadToken() // the brace seen by PeekKind
	r.empty = true
	for dec.PeekKind() != '}' {
		if err := r.field(dec); err != nil {
			return r, fmt.Errorf("%w: %w", ErrUnreadable, err)
		}
		r.empty = false
	}
	_, _ = dec.ReadToken()
	r.end = int(dec.InputOffset()) - 1
	if _, err := dec.ReadToken(); !errors.Is(err, io.EOF) {
		return r, fmt.Errorf("%w: trailing data (byte %d)", ErrUnreadable, dec.InputOffset())
	}
	return r, nil
}

func (r *registration) field(dec *jsontext.Decoder) error {
	name, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch name.String() {
	case "broker":
		return r.readBroker(dec)
	case "brokerHeartbeat":
		return r.readHeartbeat(dec)
	default:
		return dec.SkipValue()
	}
}

func (r *registration) readBroker(dec *jsontext.Decoder) error {
	raw, at, err := value(dec, r.brokerAt)
	if err != nil {
		return err
	}
	r.brokerAt = at
	switch raw.Kind() {
	case 'n':
		return nil
	case '"':
		plain, _ := jsontext.AppendUnquote(nil, raw)
		broker := string(plain)
		r.broker = &broker
		return nil
	default:
		return fmt.Errorf("field broker is %s: must be a string or null", raw)
	}
}

func (r *registration) readHeartbeat(dec *jsontext.Decoder) error {
	raw, at, err := value(dec, r.heartbeatAt)
	if err != nil {
		return err
	}
	r.heartbeatAt = at
	if raw.Kind() == 'n' {
		return nil
	}
	ms, err := strconv.ParseInt(string(bytes.Trim(raw, `"`)), 10, 64)
	if err != nil {
		return fmt.Errorf("field brokerHeartbeat is %s: must be a time in milliseconds", raw)
	}
	r.heartbeat = ms
	return nil
}

func value(dec *jsontext.Decoder, before span) (raw jsontext.Value, at span, err error) {
	raw, err = dec.ReadValue()
	if err != nil {
		return nil, span{}, err
	}
	if before != (span{}) {
		return nil, span{}, fmt.Errorf("field %s occurs twice", dec.StackPointer())
	}
	to := int(dec.InputOffset())
	return raw, span{from: to - len(raw), to: to}, nil
}

// replace returns the document with another broker and heartbeat, and nothing else
// changed. It appends the fields that are missing.
func (r *registration) replace(data []byte, address string, nowMs int64) []byte {
	edits := []edit{
		r.edit("broker", r.brokerAt, quote(address)),
		r.edit("brokerHeartbeat", r.heartbeatAt, strconv.AppendInt(nil, nowMs, 10)),
	}
	if edits[1].at.from < edits[0].at.from {
		edits[0], edits[1] = edits[1], edits[0]
	}
	out := make([]byte, 0, len(data)+64)
	from := 0
	for _, e := range edits {
		out = append(out, data[from:e.at.from]...)
		out = append(out, e.text...)
		from = e.at.to
	}
	return append(out, data[from:]...)
}

type edit struct {
	at   span
	text []byte
}

// edit returns the change that puts text at the field's place, or a new field before the
// closing brace.
func (r *registration) edit(name string, at span, text []byte) edit {
	if at != (span{}) {
		return edit{at: at, text: text}
	}
	comma := ","
	if r.empty {
		comma = ""
	}
	r.empty = false
	return edit{at: span{from: r.end, to: r.end}, text: append([]byte(comma+`"`+name+`":`), text...)}
}
