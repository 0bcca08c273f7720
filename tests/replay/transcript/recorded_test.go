package transcript

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// recordings returns all files of the project.
func recordings(t *testing.T) []File {
	t.Helper()
	files, err := Recordings("../../../compat")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// recordedAnswer returns the recorded answer.
func recordedAnswer(t *testing.T, r *HTTPResponse) Answer {
	t.Helper()
	a := Answer{Status: r.Status, Header: http.Header{}}
	for name, value := range r.Headers {
		a.Header.Set(name, value)
	}
	switch {
	case r.BodyBase64 != nil:
		data, err := base64.StdEncoding.DecodeString(*r.BodyBase64)
		if err != nil {
			t.Fatal(err)
		}
		a.Body = data
	case r.Body != nil:
		a.Body = r.Body
	case r.BodyText != nil:
		a.Body = []byte(*r.BodyText)
	}
	return a
}

// eachAnswer calls fn for every recorded answer by HTTP or on a WebSocket, with the
// variables of its sequence.
func eachAnswer(t *testing.T, fn func(name string, c *Case, vars Vars)) {
	t.Helper()
	for _, f := range recordings(t) {
		vars, seq := Vars{}, ""
		for i := range f.Cases {
			c := &f.Cases[i]
			if c.Seq != seq {
				vars, seq = Vars{}, c.Seq
			}
			switch {
			case c.Transport == HTTP && c.HTTPResponse.Parallel == nil, c.Transport == WS:
				fn(f.Name+" "+c.Name, c, vars)
			}
		}
	}
}

// answerFrames returns the recorded messages.
func answerFrames(t *testing.T, c *Case) [][]byte {
	t.Helper()
	if c.WSResponse.Messages == nil {
		return [][]byte{c.WSResponse.Message}
	}
	v, err := Decode(c.WSResponse.Messages)
	if err != nil {
		t.Fatal(err)
	}
	var frames [][]byte
	for _, m := range v.([]any) {
		frames = append(frames, Encode(m))
	}
	slices.Reverse(frames) // they may come in any order
	return frames
}

// TestRecordedAnswersPass passes every recorded answer: it must be correct, also if it captures
// or refers to a captured value.
func TestRecordedAnswersPass(t *testing.T) {
	n := 0
	eachAnswer(t, func(name string, c *Case, vars Vars) {
		n++
		var d *Difference
		if c.Transport == WS {
			d = c.CheckMessages(answerFrames(t, c), vars)
		} else {
			d = c.CheckHTTP(recordedAnswer(t, c.HTTPResponse), vars)
		}
		if d != nil {
			t.Errorf("%s: %v", name, d)
		}
	})
	if n < 800 {
		t.Errorf("only %d recorded answers", n)
	}
}

// TestEveryValueCounts changes every value of every recorded answer, one at a time:
// each must be noticed, unless the case says that it does not count.
func TestEveryValueCounts(t *testing.T) {
	n := 0
	eachAnswer(t, func(name string, c *Case, vars Vars) {
		recorded := c.WSResponse.recordedOr(c.HTTPResponse)
		if recorded == nil {
			return
		}
		want, err := Decode(recorded)
		if err != nil {
			t.Fatal(err)
		}
		c.take(want, vars)
		j := judge{Case: c, vars: vars}
		for _, m := range mutants(top, want) {
			n++
			d := j.compare(top, want, m.value)
			if free := c.free(m); (d == nil) != free {
				t.Errorf("%s: %s at %s: difference %v, although free is %v", name, m.what, m.at, d, free)
			}
		}
	})
	if n < 5000 {
		t.Errorf("only %d changes were tried", n)
	}
}

// recordedOr returns the recorded JSON of either transport.
func (r *WSResponse) recordedOr(h *HTTPResponse) []byte {
	switch {
	case r != nil && r.Messages != nil:
		return r.Messages
	case r != nil:
		return r.Message
	case h.Proto != nil:
		return h.Proto.Fields
	default:
		return h.Body
	}
}

// mutant is a value with one thing changed.
type mutant struct {
	what  string
	at    string
	value any
}

const (
	otherValue = "another value"
	otherType  = "another type"
	missing    = "no value"
	further    = "a further member"
)

// mutants returns all values that differ from v in one thing.
func mutants(at string, v any) []mutant {
	list := []mutant{{otherType, at, typeChanged(v)}}
	switch v := v.(type) {
	case map[string]any:
		list = append(list, mutant{further, at, with(v, "further", Number("1"))})
		for name, m := range v {
			list = append(list, mutant{missing, at + "." + name, without(v, name)})
			for _, below := range mutants(at+"."+name, m) {
				list = append(list, mutant{below.what, below.at, with(v, name, below.value)})
			}
		}
	case []any:
		list = append(list, mutant{otherValue, at, append(slices.Clone(v), nil)})
		for i, e := range v {
			for _, below := range mutants(fmt.Sprintf("%s[%d]", at, i), e) {
				out := slices.Clone(v)
				out[i] = below.value
				list = append(list, mutant{below.what, below.at, out})
			}
		}
	case string:
		list = append(list, mutant{otherValue, at, v + "x"})
	case Number:
		other := Number("7")
		if v == other {
			other = "8"
		}
		list = append(list, mutant{otherValue, at, other})
	case bool:
		list = append(list, mutant{otherValue, at, !v})
	}
	return list
}

func typeChanged(v any) any {
	if _, ok := v.(bool); ok {
		return "text"
	}
	return true
}

func with(object map[string]any, name string, v any) map[string]any {
	out := without(object, name)
	out[name] = v
	return out
}

func without(object map[string]any, name string) map[string]any {
	out := make(map[string]any)
	for n, v := range object {
		if n != name {
			out[n] = v
		}
	}
	return out
}

// free reports whether a case says that a change does not count, or that the value
// lies below one that does not.
func (c *Case) free(m mutant) bool {
	for above := m.at; above != top; {
		above = above[:strings.LastIndexAny(above, ".[")]
		if covered(c.Volatile, above) || covered(c.Soft, above) {
			return true
		}
	}
	_, formatted := wordFor(c.Formats, m.at)
	_, referred := wordFor(c.Refs, m.at)
	switch m.what {
	case missing:
		return covered(c.Optional, m.at)
	case otherValue:
		return !formatted && !referred && (covered(c.Volatile, m.at) || covered(c.Soft, m.at))
	case further:
		return covered(c.Volatile, m.at) || covered(c.Optional, m.at+".further")
	default:
		return false
	}
}

// TestMessagesAreTheRecordedBytes holds the descriptor against the captured bytes,
// both ways.
func TestMessagesAreTheRecordedBytes(t *testing.T) {
	n := 0
	for _, f := range recordings(t) {
		for _, c := range f.Cases {
			if c.Transport != HTTP {
				continue
			}
			if r := c.HTTPRequest; r.Proto != nil && !variable.Match(r.Proto.Fields) {
				n++
				data, _, err := r.Bytes(nil)
				if got := base64.StdEncoding.EncodeToString(data); err != nil || got != *r.BodyBase64 {
					t.Errorf("%s %s: the request is %s, recorded is %s (%v)", f.Name, c.Name, got, *r.BodyBase64, err)
				}
			}
			if r := c.HTTPResponse; r.Proto != nil {
				n++
				got, err := c.tree(recordedAnswer(t, r))
				want, wantErr := r.recorded()
				if err != nil || wantErr != nil || !same(got, want) {
					t.Errorf("%s %s: the answer is %s, recorded is %s (%v, %v)", f.Name, c.Name, describe(got), describe(want), err, wantErr)
				}
			}
		}
	}
	if n < 150 {
		t.Errorf("only %d messages", n)
	}
}
