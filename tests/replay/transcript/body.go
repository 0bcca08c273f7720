package transcript

import (
	"encoding/base64"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Text returns the generated text.
func (g *Gen) Text() string { return g.Prefix + strings.Repeat(g.Unit, g.Count) + g.Suffix }

// Bytes returns the request's body. there is false if the request has no body.
func (r *HTTPRequest) Bytes(vars Vars) (data []byte, there bool, err error) {
	switch {
	case r.Body != nil:
		data, err = expand(r.Body, vars)
	case r.BodyText != nil:
		var text string
		text, err = vars.Text(*r.BodyText)
		data = []byte(text)
	case r.BodyGen != nil:
		data = []byte(r.BodyGen.Text())
	case r.Proto != nil:
		data, err = r.message(vars)
	case r.BodyBase64 != nil:
		data, err = base64.StdEncoding.DecodeString(*r.BodyBase64)
	default:
		return nil, false, nil
	}
	return data, true, err
}

func (r *HTTPRequest) message(vars Vars) ([]byte, error) {
	fields, err := Decode(r.Proto.Fields)
	if err != nil {
		return nil, err
	}
	if fields, err = vars.Value(fields); err != nil {
		return nil, err
	}
	data, err := EncodeMessage(r.Proto.Message, fields)
	if err == nil && r.Envelope {
		data = appendFrame(nil, 0, data)
	}
	return data, err
}

// expand replaces variables in JSON. Without variables the text is unchanged.
func expand(raw jsontext.Value, vars Vars) ([]byte, error) {
	if !variable.Match(raw) {
		return raw, nil
	}
	v, err := Decode(raw)
	if err != nil {
		return nil, err
	}
	if v, err = vars.Value(v); err != nil {
		return nil, err
	}
	return Encode(v), nil
}

// Frame is a message on a WebSocket.
type Frame struct {
	Data   []byte
	Binary bool
}

// Frames returns the messages to send.
func (r *WSRequest) Frames(vars Vars) ([]Frame, error) {
	switch {
	case r.MessageText != nil:
		return []Frame{{Data: []byte(*r.MessageText)}}, nil
	case r.MessageGen != nil:
		return []Frame{{Data: []byte(r.MessageGen.Text())}}, nil
	case r.MessageBase64 != nil:
		data, err := base64.StdEncoding.DecodeString(*r.MessageBase64)
		return []Frame{{Data: data, Binary: true}}, err
	}
	all := r.Messages
	if r.Message != nil {
		all = []jsontext.Value{r.Message}
	}
	var frames []Frame
	for _, raw := range all {
		data, err := expand(raw, vars)
		if err != nil {
			return nil, err
		}
		frames = append(frames, Frame{Data: data})
	}
	return frames, nil
}
