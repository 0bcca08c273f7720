package queuefile

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth bounds the nesting of a payload that stands in the document as it
// is. Readers have limits (ours has 10 000), and a payload within the limit of
// whoever accepted it would be past it three levels further in.
const maxDepth = 9000

// anyJSON takes what RFC 8259 calls JSON, lone surrogates included, as
// JavaScript writes them.
var anyJSON = []jsontext.Options{jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)}

// whiteSpace is what JSON allows around a value.
const whiteSpace = " \t\r\n"

// embeddable reports whether v, which is trimmed, is one JSON value that can
// stand in the document and be read from there byte for byte.
func embeddable(v []byte) bool {
	if !utf8.Valid(v) || !jsontext.Value(v).IsValid(anyJSON...) {
		return false
	}
	nested := bytes.Count(v, []byte{'['}) + bytes.Count(v, []byte{'{'})
	return nested <= maxDepth || depth(v) <= maxDepth
}

// depth is the nesting of a valid JSON value.
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
