package queuefile

import (
	"errors"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"osqueue/fsm"
)

// The original keeps whatever a client gave it: a type that is a number, a
// maxAttempts that is text. A document must not be lost over that, so a job
// that an original broker may have written is read again, loosely: a value of
// the wrong type becomes the nearest of the right one, or is left out.

// loosely reads a member of a job whatever its value is.
func (r *reader) loosely(dst any) error {
	switch p := dst.(type) {
	case *fsm.Status: // which list a job belongs to is not for guessing
		return r.status(p)
	case *string:
		return r.anyText(p)
	case **string:
		*p = new(string)
		return r.anyText(*p)
	case *int64, **int64, *int32, *uint64:
		return r.anyNumber(p)
	default:
		return r.syntax(r.dec.SkipValue())
	}
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
	v, err := strconv.ParseFloat(plainText(raw), 64)
	if math.IsNaN(v) || err != nil && !errors.Is(err, strconv.ErrRange) {
		return nil // left out
	}
	switch p := dst.(type) {
	case *int64:
		*p = int64(within(v, math.MinInt64, math.MaxInt64))
	case **int64:
		n := int64(within(v, math.MinInt64, math.MaxInt64))
		*p = &n
	case *int32:
		*p = int32(within(v, math.MinInt32, math.MaxInt32))
	case *uint64:
		*p = uint64(within(v, 0, math.MaxInt64))
	}
	return nil
}

// within truncates v and clamps it. The bounds of int64 are no float64, so the
// largest one that is stands for the upper.
func within(v, low, high float64) float64 {
	const largest = 1<<63 - 1<<10
	return math.Trunc(min(max(v, low), high, largest))
}
