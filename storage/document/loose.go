package document

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The legacy broker keeps whatever a client or a person gave it: a type that is a number, a
// maxAttempts that is text, a job without a status. A queue must not be lost because of
// such a value, so the reader reads the parts that a legacy broker may have written
// loosely: a value of the wrong type becomes the nearest value of the right type, or is
// left out. foreign.go makes jobs of the result.

// loosely reads a field whatever its value is.
func (r *reader) loosely(dst any) error {
	switch p := dst.(type) {
	case func() error:
		return p()
	case statusOf:
		return r.anyStatus(p)
	case *string:
		return r.anyText(p)
	case **string:
		*p = new(string)
		return r.anyText(*p)
	case *int64, **int64, *int32, *uint64, *uint8:
		return r.anyNumber(p)
	case *[]string:
		return r.anyTexts(p)
	case word:
		return r.anyWord(p)
	case part:
		return r.anyPart(p)
	default:
		return r.syntax(r.dec.SkipValue())
	}
}

// anyStatus reads a status, or keeps the text of an unknown one.
func (r *reader) anyStatus(dst statusOf) error {
	var name string
	if err := r.anyText(&name); err != nil {
		return err
	}
	*dst.known, *dst.odd = 0, name
	if s, ok := fsm.ParseStatus(name); ok {
		*dst.known, *dst.odd = s, ""
	}
	return nil
}

// anyText reads a string, or the JSON of a value of another type.
func (r *reader) anyText(dst *string) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	*dst = plainText(raw)
	return nil
}

// anyTexts reads an array and converts its elements to text. It leaves dst unchanged if the
// value is not an array.
func (r *reader) anyTexts(dst *[]string) error {
	if r.dec.PeekKind() != '[' {
		return r.syntax(r.dec.SkipValue())
	}
	*dst = nil
	return r.list(func() error {
		var s string
		err := r.anyText(&s)
		*dst = append(*dst, s)
		return err
	})
}

func plainText(raw jsontext.Value) string {
	if raw.Kind() == '"' {
		return unquote(raw)
	}
	return string(raw)
}

// anyNumber reads the nearest integer that dst can hold, and leaves dst unchanged if the
// value is not a number.
func (r *reader) anyNumber(dst any) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	v, ok := nearest(plainText(raw))
	if !ok {
		return nil // left out
	}
	switch p := dst.(type) {
	case *int64:
		*p = v
	case **int64:
		*p = &v
	case *int32:
		*p = int32(min(max(v, math.MinInt32), math.MaxInt32))
	case *uint64:
		*p = uint64(max(v, 0))
	case *uint8:
		*p = uint8(min(max(v, 0), math.MaxUint8))
	}
	return nil
}

// nearest returns the integer nearest to a number; ok is false if text is not a number.
func nearest(text string) (v int64, ok bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(f) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	// The bounds of int64 are not exact as float64, so largest, the largest float64 within
	// them, stands for the upper bound.
	const largest = 1<<63 - 1<<10
	return int64(math.Trunc(min(max(f, math.MinInt64), largest))), true
}

// anyBase64Field reads a Base64 field if the value is valid.
func (r *reader) anyBase64Field(t *base64Field) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	if plain, err := base64.StdEncoding.DecodeString(plainText(raw)); err == nil {
		t.exact = append(t.exact, string(plain))
	}
	return nil
}
