package osqueue

import (
	"bytes"
	"slices"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
)

// Nearly all bodies need no translation. scanPlain recognizes them in one pass without an
// allocation, and leaves everything that is unusual to the general parser of body.go, which is
// the reference: FuzzPlain compares the two.

// A plainBody is a body that the API reads as the legacy broker did.
type plainBody struct {
	end     int // offset of the object's closing brace
	members int
	id      bool // it has a field id
	native  bool // it has fields that only the API has
}

// scanPlain scans the body of a request to a legacy route. It returns false if the body may
// need a translation.
func scanPlain(path string, body []byte) (plainBody, bool) {
	var found plainBody
	if !utf8.Valid(body) {
		return found, false
	}
	s := scanner{in: body}
	if !s.take('{') {
		return found, false
	}
	var names [plainMembers][]byte
	for !s.take('}') {
		if found.members > 0 && !s.take(',') {
			return found, false
		}
		name, ok := s.text()
		if !ok || found.members == plainMembers || contains(names[:found.members], name) || !s.take(':') {
			return found, false
		}
		names[found.members] = name
		found.members++
		start := s.space()
		if !s.value() || !plainValue(path, name, bytes.TrimRight(body[start:s.at], " \t\r\n")) {
			return found, false
		}
		found.id = found.id || string(name) == "id"
		found.native = found.native || slices.Contains(nativeMembers, string(name))
	}
	found.end = s.at - 1
	return found, s.space() == len(body)
}

// submission returns the body of a submission with an id. It may overwrite body.
func (p *plainBody) submission(body []byte, id string) []byte {
	if p.id {
		return body
	}
	out := body[:p.end]
	if p.members > 0 {
		out = append(out, ',')
	}
	out = append(out, `"id":"`...)
	out = append(out, id...)
	return append(out, `"}`...)
}

// plainMembers is the largest number of fields of a plain body.
const plainMembers = 32

func contains(names [][]byte, name []byte) bool {
	return slices.ContainsFunc(names, func(n []byte) bool { return bytes.Equal(n, name) })
}

// plainValue reports whether the API reads the value of a field as the legacy broker did.
func plainValue(path string, name, value []byte) bool {
	switch path {
	case v1.PathJobs:
		switch string(name) {
		case "maxAttempts":
			return isSmallNumber(value)
		case "id":
			return value[0] == '"' && len(value) > len(`""`)
		}
		return !slices.Contains(ofListed, string(name))
	case v1.PathClaim:
		return string(name) != "types" || isPlainTypes(value)
	}
	return string(name) != "workerId" || isPlainName(value)
}

// smallDigits is the number of digits that any int32 can have.
const smallDigits = 9

func isSmallNumber(value []byte) bool {
	for _, c := range value {
		if c < '0' || c > '9' {
			return false
		}
	}
	return len(value) <= smallDigits && (value[0] != '0' || len(value) == 1)
}

// isPlainName reports whether a value is a text without escapes that is not too long for a name.
func isPlainName(value []byte) bool {
	s := scanner{in: value}
	name, ok := s.text()
	return ok && len(name) <= nameBytes
}

// plainTypesMax is the largest number of types of a claim that is plain.
const plainTypesMax = 16

// isPlainTypes reports whether a value is a list of different names.
func isPlainTypes(value []byte) bool {
	s := scanner{in: value}
	if !s.take('[') {
		return false
	}
	var names [plainTypesMax][]byte
	n := 0
	for !s.take(']') {
		if n > 0 && !s.take(',') {
			return false
		}
		s.space()
		name, ok := s.text()
		if !ok || n == plainTypesMax || len(name) == 0 || len(name) > nameBytes || contains(names[:n], name) {
			return false
		}
		names[n] = name
		n++
	}
	return true
}

// A scanner reads JSON without checking it in full: of what is invalid it may accept a part,
// which the API then refuses.
type scanner struct {
	in []byte
	at int
}

// space skips white space and returns the offset behind it.
func (s *scanner) space() int {
	for s.at < len(s.in) && (s.in[s.at] == ' ' || s.in[s.at] == '\t' || s.in[s.at] == '\n' || s.in[s.at] == '\r') {
		s.at++
	}
	return s.at
}

// take skips white space and c, if c comes next.
func (s *scanner) take(c byte) bool {
	if s.space(); s.at == len(s.in) || s.in[s.at] != c {
		return false
	}
	s.at++
	return true
}

// text reads a text without escapes and returns what is between its quotes.
func (s *scanner) text() ([]byte, bool) {
	if !s.take('"') {
		return nil, false
	}
	start := s.at
	for ; s.at < len(s.in); s.at++ {
		switch c := s.in[s.at]; {
		case c == '"':
			s.at++
			return s.in[start : s.at-1], true
		case c == '\\' || c < ' ':
			return nil, false
		}
	}
	return nil, false
}

// value skips a value.
func (s *scanner) value() bool {
	start, depth := s.at, 0
	for ; s.at < len(s.in); s.at++ {
		switch s.in[s.at] {
		case '"':
			if !s.skipText() {
				return false
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return s.at > start
			}
			depth--
		case ',':
			if depth == 0 {
				return s.at > start
			}
		}
	}
	return false
}

// skipText moves from the opening quote of a text to the closing one.
func (s *scanner) skipText() bool {
	for s.at++; s.at < len(s.in); s.at++ {
		switch s.in[s.at] {
		case '"':
			return true
		case '\\':
			s.at++
		}
	}
	return false
}
