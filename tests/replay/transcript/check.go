package transcript

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
)

// Answer is a server's answer by HTTP.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // unpacked
}

// CheckHTTP checks the answer to a request by HTTP, and stores in vars the values that the case
// captures, whether the answer is correct or not.
func (c *Case) CheckHTTP(a Answer, vars Vars) *Difference {
	want := c.HTTPResponse
	body, bodyErr := c.tree(a)
	if bodyErr == nil {
		defer c.take(body, vars)
	}
	if a.Status != want.Status && !slices.Contains(want.StatusAlso, a.Status) {
		return &Difference{"status", statuses(want), fmt.Sprintf("%d: %s", a.Status, clip(string(a.Body)))}
	}
	if d := c.checkBody(a, body, bodyErr, vars); d != nil {
		return d
	}
	for _, name := range want.HeadersAbsent {
		if values := a.Header.Values(name); len(values) > 0 {
			return &Difference{"header " + name, "none", values[0]}
		}
	}
	return compareHeaders(want.Headers, a.Header)
}

func statuses(want *HTTPResponse) string {
	text := strconv.Itoa(want.Status)
	for _, also := range want.StatusAlso {
		text += " or " + strconv.Itoa(also)
	}
	return text
}

// tree returns the answer's body as a JSON value, for a case that expects one.
func (c *Case) tree(a Answer) (any, error) {
	want := c.HTTPResponse
	switch {
	case want.Envelope:
		message, _, err := readFrames(a.Body)
		if err != nil {
			return nil, err
		}
		return DecodeMessage(want.Proto.Message, message)
	case want.Proto != nil:
		return DecodeMessage(want.Proto.Message, a.Body)
	default:
		return Decode(a.Body)
	}
}

func (c *Case) checkBody(a Answer, body any, bodyErr error, vars Vars) *Difference {
	want := c.HTTPResponse
	switch {
	case want.Proto != nil || want.Body != nil:
		recorded, err := want.recorded()
		if err != nil {
			return &Difference{"the recorded body", "JSON", err.Error()}
		}
		if bodyErr != nil {
			return &Difference{"body", describe(recorded), fmt.Sprintf("%q: %v", clip(string(a.Body)), bodyErr)}
		}
		if d := want.checkTrailer(a); d != nil {
			return d
		}
		j := judge{Case: c, vars: vars, extra: superset(c.HTTPRequest, want)}
		return j.compare(top, recorded, body)
	case want.BodyText != nil:
		if !covered(c.Soft, textBody) && *want.BodyText != string(a.Body) {
			return &Difference{"body", strconv.Quote(clip(*want.BodyText)), strconv.Quote(clip(string(a.Body)))}
		}
	case want.BodyBase64 != nil:
		data, err := base64.StdEncoding.DecodeString(*want.BodyBase64)
		if err != nil || !bytes.Equal(data, a.Body) {
			return &Difference{"body", clip(*want.BodyBase64), clip(base64.StdEncoding.EncodeToString(a.Body))}
		}
	}
	return nil
}

func (r *HTTPResponse) recorded() (any, error) {
	if r.Proto != nil {
		return Decode(r.Proto.Fields)
	}
	return Decode(r.Body)
}

// checkTrailer compares the status in the frames of gRPC-Web.
func (r *HTTPResponse) checkTrailer(a Answer) *Difference {
	if r.GRPCStatus == nil {
		return nil
	}
	if _, status, err := readFrames(a.Body); err != nil || status != *r.GRPCStatus {
		return &Difference{"grpc-status", strconv.Itoa(*r.GRPCStatus), fmt.Sprintf("%d %v", status, err)}
	}
	return nil
}

// CheckParallel checks the statuses of requests that were sent at once.
func (c *Case) CheckParallel(got []int) *Difference {
	counts := make(map[string]int)
	for _, status := range got {
		counts[strconv.Itoa(status)]++
	}
	if want := c.HTTPResponse.Parallel; !maps.Equal(want, counts) {
		return &Difference{"statuses", fmt.Sprint(want), fmt.Sprint(counts)}
	}
	return nil
}

// CheckMessages checks the answers on a WebSocket, and stores the captured values.
func (c *Case) CheckMessages(frames [][]byte, vars Vars) *Difference {
	raw := c.WSResponse.Messages
	if raw == nil {
		raw = c.WSResponse.Message
	}
	want, err := Decode(raw)
	if err != nil {
		return &Difference{"the recorded message", "JSON", err.Error()}
	}
	var all []any
	for _, frame := range frames {
		v, err := Decode(frame)
		if err != nil {
			return &Difference{"message", describe(want), fmt.Sprintf("%q: %v", clip(string(frame)), err)}
		}
		all = append(all, v)
	}
	j := judge{Case: c, vars: vars}
	if c.WSResponse.Messages != nil {
		got := inOrderOf(want, all)
		c.take(got, vars)
		return j.compare(top, want, got)
	}
	if len(all) != 1 {
		return &Difference{"messages", "one: " + describe(want), strconv.Itoa(len(all))}
	}
	c.take(all[0], vars)
	return j.compare(top, want, all[0])
}

// inOrderOf sorts answers into the order of the recorded ones, by their ids. Answers without a
// recorded one come last.
func inOrderOf(want any, got []any) any {
	out := []any{}
	rest := slices.Clone(got)
	list, _ := want.([]any)
	for _, w := range list {
		i := slices.IndexFunc(rest, func(g any) bool { return same(idOf(w), idOf(g)) })
		if i >= 0 {
			out = append(out, rest[i])
			rest = slices.Delete(rest, i, i+1)
		}
	}
	return append(out, rest...)
}

func idOf(v any) any {
	object, _ := v.(map[string]any)
	return object["id"]
}

// Answers returns the number of messages for which the case waits.
func (c *Case) Answers() int {
	if c.WSResponse.Messages == nil {
		return 1
	}
	return len(c.WSRequest.Messages)
}

// CheckHandshake checks the answer to a request for a WebSocket, and, if the case has one, the
// code with which the server then closed the connection: -1 means none.
func (c *Case) CheckHandshake(a Answer, closeCode int) *Difference {
	want := c.HandshakeResponse
	if a.Status != want.Status {
		return &Difference{"status", strconv.Itoa(want.Status), fmt.Sprintf("%d: %s", a.Status, clip(string(a.Body)))}
	}
	if d := compareHeaders(want.Headers, a.Header); d != nil {
		return d
	}
	if want.CloseCode != nil && *want.CloseCode != closeCode {
		return &Difference{"close code", strconv.Itoa(*want.CloseCode), strconv.Itoa(closeCode)}
	}
	return nil
}

// CheckStart checks whether a server serves.
func (c *Case) CheckStart(started bool) *Difference {
	if want := c.StartResponse.Started; want != started {
		return &Difference{"started", strconv.FormatBool(want), strconv.FormatBool(started)}
	}
	return nil
}
