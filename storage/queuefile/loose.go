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
	case *int64, **int64, *int32, *uint64:
		return r.anyNumber(p)
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

// within truncates v and clamps it. The bounds of int64 are no float64, so the
// largest one that is stands for the upper.
func within(v, low, high float64) float64 {
	const largest = 1<<63 - 1<<10
	return math.Trunc(min(max(v, low), high, largest))
}
