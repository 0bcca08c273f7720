package document

import (
	"errors"
	"math"
	"strconv"

	"osqueue/fsm"
	"osqueue/internal/clip"
)

var (
	errInteger = errors.New("must be an integer")
	errRange   = errors.New("number out of range")
)

// number reads an integer into dst, a pointer to an integer.
func (r *reader) number(dst any) error {
	if k := r.dec.PeekKind(); k != '0' && k != '"' {
		return r.want("an integer")
	}
	raw, err := r.dec.ReadValue()
	if err != nil {
		return r.syntax(err)
	}
	if raw[0] == '"' {
		raw = raw[1 : len(raw)-1]
	}
	if err := parseInto(dst, raw); err != nil {
		return r.fail("the value "+strconv.Quote(clip.To(string(raw), 40)), err)
	}
	return nil
}

func parseInto(dst any, raw []byte) (err error) {
	switch p := dst.(type) {
	case *int64:
		*p, err = parseInt(raw, math.MinInt64, math.MaxInt64)
	case **int64:
		*p = new(int64)
		**p, err = parseInt(raw, math.MinInt64, math.MaxInt64)
	case *int32:
		var v int64
		v, err = parseInt(raw, math.MinInt32, math.MaxInt32)
		*p = int32(v)
	case **int32:
		*p = new(int32)
		var v int64
		v, err = parseInt(raw, math.MinInt32, math.MaxInt32)
		**p = int32(v)
	case *uint8:
		var v int64
		v, err = parseInt(raw, 0, math.MaxUint8)
		*p = uint8(v)
	case *uint32:
		var v int64
		v, err = parseInt(raw, 0, math.MaxUint32)
		*p = uint32(v)
	case *int:
		var v int64
		v, err = parseInt(raw, math.MinInt32, math.MaxInt32)
		*p = int(v)
	case *uint64:
		*p, err = parseUint(raw)
	case **uint64:
		*p = new(uint64)
		**p, err = parseUint(raw)
	default:
		panic("document: no reader for the type of a field")
	}
	return err
}

// parseInt parses an integer in [low, high]. It also accepts an integer in the form 1.7e12.
func parseInt(raw []byte, low, high int64) (int64, error) {
	v, err := strconv.ParseInt(string(raw), 10, 64)
	switch {
	case errors.Is(err, strconv.ErrRange):
		return 0, errRange
	case err != nil:
		if v, err = parseFloat(raw); err != nil {
			return 0, err
		}
	}
	if v < low || v > high {
		return 0, errRange
	}
	return v, nil
}

func parseUint(raw []byte) (uint64, error) {
	v, err := strconv.ParseUint(string(raw), 10, 64)
	if err == nil {
		return v, nil
	}
	if errors.Is(err, strconv.ErrRange) {
		return 0, errRange
	}
	i, err := parseInt(raw, 0, math.MaxInt64)
	return uint64(i), err
}

func parseFloat(raw []byte) (int64, error) {
	f, err := strconv.ParseFloat(string(raw), 64)
	switch {
	case err != nil || f != math.Trunc(f):
		return 0, errInteger
	case math.Abs(f) > maxExact:
		return 0, errRange
	}
	return int64(f), nil
}

// statusOf is the destination of a job's status. A loose reading stores an unknown status
// as text.
type statusOf struct {
	known *fsm.Status
	odd   *string
}

func (r *reader) status(dst statusOf) error {
	var name string
	if err := r.text(&name); err != nil {
		return err
	}
	s, ok := fsm.ParseStatus(name)
	if !ok {
		return r.fail("the status "+strconv.Quote(name)+" is not known; upgrade this program", nil)
	}
	*dst.known = s
	return nil
}

// endOf returns the destination of the name of an end.
func endOf(dst *fsm.End) word {
	return word{
		what: "the end of an attempt",
		name: func(name string) bool {
			for e, known := range ends {
				if name == known && name != "" {
					*dst = fsm.End(e)
					return true
				}
			}
			return false
		},
	}
}

// ends are the names of fsm.End in the document; NoEnd is left out.
var ends = [...]string{
	fsm.NoEnd:       "",
	fsm.EndOK:       "completed",
	fsm.EndFail:     "failed",
	fsm.EndReleased: "released",
	fsm.EndLease:    "expired",

	fsm.EndTimeout: "timed_out",
}
