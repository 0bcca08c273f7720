package osqueue

import (
	"bytes"
	"errors"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// message is a request on a WebSocket, as far as it has been read.
type message struct {
	id     jsontext.Value // as it was sent; null if it was not
	method string         // its name, as text
	named  bool           // the name was text when it was sent
	params params
}

// params of all methods. What was not sent is nil.
type params struct {
	Payload     jsontext.Value `json:"payload"`
	Type        jsontext.Value `json:"type"`
	MaxAttempts jsontext.Value `json:"maxAttempts"`
	WorkerID    jsontext.Value `json:"workerId"`
	Types       jsontext.Value `json:"types"`
	JobID       jsontext.Value `json:"jobId"`
}

// envelope is how a request looks.
type envelope struct {
	ID     jsontext.Value `json:"id"`
	Method jsontext.Value `json:"method"`
	Params jsontext.Value `json:"params"`
}

var (
	errInvalidJSON = errors.New("Invalid JSON") //nolint:staticcheck // the text is part of the contract
	null           = jsontext.Value("null")
)

// parseMessage reads a request. Only what is not JSON is an error: the original
// looks for members in whatever it gets, and does not find them.
func parseMessage(raw []byte) (message, error) {
	m := message{id: null, method: undefined}
	raw = validText(raw)
	value := jsontext.Value(raw)
	if !value.IsValid(lenient) {
		return m, errInvalidJSON
	}
	if value.Kind() != jsontext.KindBeginObject {
		return m, nil
	}
	var e envelope
	if err := json.Unmarshal(raw, &e, lenient); err != nil {
		return m, errInvalidJSON
	}
	if e.ID != nil {
		m.id = e.ID
	}
	if e.Method != nil {
		m.method, m.named = clip(textOf(e.Method, methodMax)), e.Method.Kind() == jsontext.KindString
	}
	if e.Params.Kind() == jsontext.KindBeginObject {
		if err := json.Unmarshal(e.Params, &m.params, lenient); err != nil {
			return m, errInvalidJSON
		}
	}
	return m, nil
}

// undefined is the text of a method that was not sent.
const undefined = "undefined"

// methodMax bounds what an answer repeats of the name of a method.
const methodMax = 1024

func clip(s string) string {
	if len(s) <= methodMax {
		return s
	}
	return strings.ToValidUTF8(s[:methodMax], "")
}

// submission is the job that submitJob is about. What has the wrong type is left
// out.
func (p *params) submission() submission {
	in := submission{payload: p.Payload}
	if p.Type.Kind() == jsontext.KindString {
		in.jobType = unquoted(p.Type)
	}
	if p.MaxAttempts.Kind() == jsontext.KindNumber {
		// A number that is too large is infinite, which is what is wanted.
		limit, _ := strconv.ParseFloat(string(p.MaxAttempts), 64)
		in.maxAttempts = &limit
	}
	return in
}

// filter are the types that claimJob asks for; none is any.
func (p *params) filter() []string {
	if p.Types.Kind() != jsontext.KindBeginArray {
		return nil
	}
	var f filter
	eachItem(p.Types, func(item jsontext.Value) { f.add(nameOf(item, nameBytes)) })
	return f.all()
}

// nameOf is a name: what is absent or null has the empty one. Of one that is longer
// than most bytes only that counts: it can be cut anywhere behind them.
func nameOf(v jsontext.Value, most int) string {
	if len(v) == 0 || v.Kind() == jsontext.KindNull {
		return ""
	}
	return textOf(v, most)
}

// textOf is a value, which is valid, as JavaScript makes text of it. Of text that is
// longer than most bytes it is the beginning, some more than these.
func textOf(v jsontext.Value, most int) string {
	if v.Kind() == jsontext.KindString {
		return unquoted(v)
	}
	w := textWriter{dec: jsontext.NewDecoder(bytes.NewBuffer(v), lenient), most: most}
	w.value(false)
	return w.text.String()
}

func unquoted(v jsontext.Value) string {
	text, _ := jsontext.AppendUnquote(nil, v) // halves of pairs are replaced
	return string(text)
}

// textWriter writes the text of a value in one go, however deep it is.
type textWriter struct {
	dec  *jsontext.Decoder
	text strings.Builder
	most int
}

// value writes the next value, and reports whether to go on. Within a list null is
// nothing.
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

// numberText is a number as ECMAScript writes it, which is the canonical form of
// RFC 8785.
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
