package transcript

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// Number is a JSON number in its original spelling.
type Number string

// MarshalJSON implements json.Marshaler.
func (n Number) MarshalJSON() ([]byte, error) { return []byte(n), nil }

// numbers decodes numbers as Number.
var numbers = json.WithUnmarshalers(json.UnmarshalFromFunc(func(dec *jsontext.Decoder, v *any) error {
	if dec.PeekKind() != '0' {
		return errors.ErrUnsupported
	}
	n, err := dec.ReadValue()
	*v = Number(n)
	return err
}))

// Decode decodes one JSON value: nil, bool, string, Number, []any, map[string]any. A duplicate
// name in an object is an error.
func Decode(data []byte) (v any, err error) {
	err = json.Unmarshal(data, &v, numbers)
	return v, err
}

// Encode encodes a value as JSON, with the fields of objects sorted by name. Invalid Unicode is replaced.
func Encode(v any) []byte {
	data, err := json.Marshal(v, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		panic(fmt.Sprintf("transcript: %T is no JSON value: %v", v, err))
	}
	return data
}

// typeOf names the JSON type of a value.
func typeOf(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case string:
		return "text"
	case Number:
		return "number"
	case []any:
		return "array"
	default:
		return "object"
	}
}

// canonical returns the same text for all spellings of a number: the digits without zeros at
// either end, and the power of ten. The cost does not depend on the size of the exponent.
func (n Number) canonical() string {
	s := string(n)
	sign := ""
	if strings.HasPrefix(s, "-") {
		sign, s = "-", s[1:]
	}
	exponent := 0
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil {
			return string(n) // an exponent that no number needs: compared as it is written
		}
		exponent, s = e, s[:i]
	}
	whole, fraction, _ := strings.Cut(s, ".")
	digits := strings.TrimLeft(whole+fraction, "0")
	exponent -= len(fraction)
	trimmed := strings.TrimRight(digits, "0")
	if trimmed == "" {
		return "0"
	}
	return fmt.Sprintf("%s%se%d", sign, trimmed, exponent+len(digits)-len(trimmed))
}
