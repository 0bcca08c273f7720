package document

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of a payload that the document contains unquoted. Readers
// have limits (10 000 in this package), and the document nests a payload three levels
// deeper than the request that carried it.
const maxDepth = 9000

// anyJSON accepts all JSON of RFC 8259, including lone surrogates, which JavaScript writes.
var anyJSON = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// whiteSpace is the white space that JSON allows around a value.
const whiteSpace = " \t\r\n"

// embeddable reports whether v, which is trimmed, is one JSON value that the document can
// contain and a reader can read back byte for byte.
func embeddable(v []byte) bool {
	if !utf8.Valid(v) || !jsontext.Value(v).IsValid(anyJSON...) {
		return false
	}
	nested := bytes.Count(v, []byte{'['}) + bytes.Count(v, []byte{'{'})
	return nested <= maxDepth || depth(v) <= maxDepth
}

// depth returns the nesting of a valid JSON value.
func depth(v []byte) int {
	dec := jsontext.NewDecoder(bytes.NewBuffer(v), anyJSON...)
	deepest := 0
	for {
		if _, err := dec.ReadToken(); err != nil {
			return deepest
		}
		deepest = max(deepest, dec.StackDepth())
	}
}
