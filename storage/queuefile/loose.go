package queuefile

import (
	"encoding/base64"
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The original keeps whatever a client or a person gave it: a type that is a
// number, a maxAttempts that is text, a job without a status. A queue must not
// be lost over that, so what an original broker may have written is read
// loosely: a value of the wrong type becomes the nearest of the right one, or is
// left out. foreign.go makes jobs of the result.

// loosely reads a member whatever its value is.
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

// anyStatus takes a status, or the text of what is none.
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

// anyText takes a string, or the JSON of what is none.
func (r *reader) anyText(dst *string) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	*dst = plainText(raw)
	return nil
}

// anyTexts takes an array, whose elements become text, and leaves dst as it is
// if the value is none.
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

// anyNumber takes the nearest integer that dst can hold, and leaves dst as it
// is if the value is no number.
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

// nearest is the integer nearest to a number; ok is false if it is none.
func nearest(text string) (v int64, ok bool) {
	if v, err := strconv.ParseInt(text, 10, 64); err == nil {
		return v, true
	}
	f, err := strconv.ParseFloat(text, 64)
	if math.IsNaN(f) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return 0, false
	}
	// The bounds of int64 are no float64, so the largest one that is stands
	// for the upper.
	const largest = 1<<63 - 1<<10
	return int64(math.Trunc(min(max(f, math.MinInt64), largest))), true
}

// anyTwin reads a twin if the value is one.
func (r *reader) anyTwin(t *twin) error {
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	if plain, err := base64.StdEncoding.DecodeString(plainText(raw)); err == nil {
		t.exact = append(t.exact, string(plain))
	}
	return nil
}
