package osqueue

import (
	"bytes"
	"math"
	"slices"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
	"osqueue/internal/jsonscan"
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
	var names [plainMembers][]byte
	s := jsonscan.New(body)
	ok := s.Object(func(name []byte) bool {
		if found.members == plainMembers || contains(names[:found.members], name) || !plainValue(&s, path, name) {
			return false
		}
		names[found.members] = name
		found.members++
		found.id = found.id || string(name) == "id"
		found.native = found.native || slices.Contains(nativeMembers, string(name))
		return true
	})
	found.end = s.Offset() - 1
	return found, ok && s.End()
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

// plainValue reads the value of a field, and reports whether the API reads it as the legacy
// broker did.
func plainValue(s *jsonscan.Scanner, path string, name []byte) bool {
	switch path {
	case v1.PathJobs:
		switch string(name) {
		case "maxAttempts":
			n, ok := s.Int()
			return ok && n >= 0 && n <= math.MaxInt32
		case "id":
			id, ok := s.Text()
			return ok && len(id) > 0
		}
		_, ok := s.Raw()
		return ok && !slices.Contains(ofListed, string(name))
	case v1.PathClaim:
		if string(name) == "types" {
			return plainTypeList(s)
		}
	default:
		if string(name) == "workerId" {
			worker, ok := s.Text()
			return ok && len(worker) <= nameBytes
		}
	}
	_, ok := s.Raw()
	return ok
}

// plainTypesMax is the largest number of types of a claim that is plain.
const plainTypesMax = 16

// plainTypeList reads a list of different names.
func plainTypeList(s *jsonscan.Scanner) bool {
	var names [plainTypesMax][]byte
	n := 0
	return s.Array(func() bool {
		name, ok := s.Text()
		if !ok || n == plainTypesMax || len(name) == 0 || len(name) > nameBytes || contains(names[:n], name) {
			return false
		}
		names[n] = name
		n++
		return true
	})
}
