package osqueue

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"osqueue/compat"
	"osqueue/internal/limit"
)

// A message is a parsed request on a WebSocket.
type message struct {
	id     jsontext.Value // as it was sent; null if it is missing
	method string         // the name as text
	named  bool           // the name was sent as a JSON string
	params params
}

// params are the parameters of all methods. A missing one is nil.
type params struct {
	Payload     jsontext.Value `json:"payload"`
	Type        jsontext.Value `json:"type"`
	MaxAttempts jsontext.Value `json:"maxAttempts"`
	WorkerID    jsontext.Value `json:"workerId"`
	Types       jsontext.Value `json:"types"`
	JobID       jsontext.Value `json:"jobId"`
}

// An envelope is the JSON of a request.
type envelope struct {
	ID     jsontext.Value `json:"id"`
	Method jsontext.Value `json:"method"`
	Params jsontext.Value `json:"params"`
}

var (
	errInvalidJSON = errors.New("Invalid JSON") //nolint:staticcheck // the text is part of the contract
	null           = jsontext.Value("null")
)

// parseMessage parses a request. Only invalid JSON is an error: the legacy broker looks
// for the fields in any value.
func parseMessage(raw []byte) (message, error) {
	m := message{id: null, method: undefined}
	raw = validText(raw)
	value := jsontext.Value(raw)
	if !value.IsValid(compat.Lenient) {
		return m, errInvalidJSON
	}
	if value.Kind() != jsontext.KindBeginObject {
		return m, nil
	}
	var e envelope
	if err := json.Unmarshal(raw, &e, compat.Lenient); err != nil {
		return m, errInvalidJSON
	}
	if e.ID != nil {
		m.id = e.ID
	}
	if e.Method != nil {
		m.method, m.named = limit.Clip(textOf(e.Method, methodMax), methodMax), e.Method.Kind() == jsontext.KindString
	}
	if e.Params.Kind() == jsontext.KindBeginObject {
		if err := json.Unmarshal(e.Params, &m.params, compat.Lenient); err != nil {
			return m, errInvalidJSON
		}
	}
	return m, nil
}

// undefined is the text of a missing method in JavaScript.
const undefined = "undefined"

// methodMax is the largest number of bytes of a method's name in an answer.
const methodMax = 1024

// submission returns the job of submitJob. A field of the wrong type is left out.
func (p *params) submission() submission {
	in := submission{payload: p.Payload}
	if p.Type.Kind() == jsontext.KindString {
		in.jobType = unquoted(p.Type)
	}
	if p.MaxAttempts.Kind() == jsontext.KindNumber {
		// A number that is too large becomes infinite, as in JavaScript.
		limit, _ := strconv.ParseFloat(string(p.MaxAttempts), 64)
		in.maxAttempts = &limit
	}
	return in
}

// filter returns the types of claimJob; nil means any type.
func (p *params) filter() []string {
	if p.Types.Kind() != jsontext.KindBeginArray {
		return nil
	}
	var f filter
	eachItem(p.Types, func(item jsontext.Value) { f.add(nameOf(item, nameBytes)) })
	return f.all()
}

// nameOf returns the text of a name, "" if it is missing or null. A name of more than
// most bytes may be cut anywhere behind them.
func nameOf(v jsontext.Value, most int) string {
	if len(v) == 0 || v.Kind() == jsontext.KindNull {
		return ""
	}
	return textOf(v, most)
}

// textOf converts a valid value to text as JavaScript's String() does. It may cut a text
// of more than most bytes anywhere behind them.
func textOf(v jsontext.Value, most int) string {
	if v.Kind() == jsontext.KindString {
		return unquoted(v)
	}
	w := textWriter{dec: jsontext.NewDecoder(bytes.NewBuffer(v), compat.Lenient), most: most}
	w.value(false)
	return w.text.String()
}

func unquoted(v jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, v) // lone surrogates are replaced
	return string(text)
}

// A textWriter writes the text of a value in one pass, whatever its depth.
type textWriter struct {
	dec  *jsontext.Decoder
	text strings.Builder
	most int
}

// value writes the next value and reports whether to continue. In a list null is
// empty.
func (w *textWriter) value(inList bool) bool {
	switch w.dec.PeekKind() {
	case jsontext.KindBeginArray:
		if !w.list() {
			return false
		}
	case jsontext.KindBeginObject:
		if w.dec.SkipValue() != nil {
			return false
		}
		w.text.WriteString("[object Object]")
	default:
		v, err := w.dec.ReadValue()
		if err != nil {
			return false
		}
		w.scalar(v, inList)
	}
	return w.text.Len() <= w.most
}

func (w *textWriter) list() bool {
	_, err := w.dec.ReadToken()
	for first := true; err == nil && w.dec.PeekKind() != jsontext.KindEndArray; first = false {
		if !first {
			w.text.WriteByte(',')
		}
		if !w.value(true) {
			return false
		}
	}
	if err == nil {
		_, err = w.dec.ReadToken()
	}
	return err == nil
}

func (w *textWriter) scalar(v jsontext.Value, inList bool) {
	switch v.Kind() {
	case jsontext.KindString:
		w.text.WriteString(unquoted(v))
	case jsontext.KindNumber:
		w.text.WriteString(numberText(v))
	case jsontext.KindNull:
		if !inList {
			w.text.WriteString("null")
		}
	default: // true and false
		w.text.Write(v)
	}
}

// numberText formats a number as ECMAScript does, in the canonical form of RFC 8785.
func numberText(v jsontext.Value) string {
	f, err := strconv.ParseFloat(string(v), 64)
	switch {
	case err != nil && f > 0:
		return "Infinity"
	case err != nil && f < 0:
		return "-Infinity"
	case f == 0:
		return "0" // also -0
	}
	canonical := v.Clone()
	if err := canonical.Canonicalize(); err != nil {
		return string(v)
	}
	return string(canonical)
}
