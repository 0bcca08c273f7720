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
		m.method, m.named = clip(textOf(e.Method)), e.Method.Kind() == jsontext.KindString
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
		in.jobType = textOf(p.Type)
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
	var entries []jsontext.Value
	if err := json.Unmarshal(p.Types, &entries, lenient); err != nil {
		return nil
	}
	types := make([]string, len(entries))
	for i, e := range entries {
		types[i] = nameOf(e)
	}
	return types
}

// nameOf is a name: what is absent or null has the empty one.
func nameOf(v jsontext.Value) string {
	if len(v) == 0 || v.Kind() == jsontext.KindNull {
		return ""
	}
	return textOf(v)
}

// textOf is a value as JavaScript makes text of it.
func textOf(v jsontext.Value) string {
	var b strings.Builder
	writeText(&b, v, false)
	return b.String()
}

// writeText writes the text of a value. Within a list null is nothing.
func writeText(b *strings.Builder, v jsontext.Value, inList bool) {
	switch v.Kind() {
	case jsontext.KindString:
		text, _ := jsontext.AppendUnquote(nil, v) // halves of pairs are replaced
		b.Write(text)
	case jsontext.KindNumber:
		b.WriteString(numberText(v))
	case jsontext.KindBeginObject:
		b.WriteString("[object Object]")
	case jsontext.KindBeginArray:
		var items []jsontext.Value
		if err := json.Unmarshal(v, &items, lenient); err != nil {
			return
		}
		for i, item := range items {
			if i > 0 {
				b.WriteByte(',')
			}
			writeText(b, item, true)
		}
	case jsontext.KindNull:
		if !inList {
			b.WriteString("null")
		}
	default: // true and false
		b.Write(bytes.TrimSpace(v))
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
