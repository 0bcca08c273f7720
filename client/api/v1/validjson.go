package v1

import (
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// ValidJSON reports whether a text can be a payload or a result: JSON as in RFC 8259, in UTF-8. Names may
// repeat, and strings may have lone surrogates as escapes; the queue keeps them.
func ValidJSON(text []byte) bool {
	return utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}
