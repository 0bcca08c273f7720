package core

import (
	"encoding/base64"
	"net/url"
	"strconv"

	v1 "osqueue/client/api/v1"
)

// SendItems appends items of a list to c.out; more says that others stand before them. It sends what it has whenever that is
// partBytes, so that a reader that does not read takes no more memory than one item. size
// estimates the bytes of an item.
func SendItems[T any](c *Call, more bool, items []T, size func(T) int, appendItem func([]byte, T) []byte) error {
	for i, item := range items {
		if more || i > 0 {
			c.Out = append(c.Out, ',')
		}
		if err := c.Grow(size(item)); err != nil {
			return err
		}
		c.Out = appendItem(c.Out, item)
		if len(c.Out) < partBytes {
			continue
		}
		if err := c.sendPart(); err != nil {
			return err
		}
	}
	return nil
}

// partBytes is the size of the parts of a list.
const partBytes = 32 << 10

// ShortJob is the size of a job without payload in a list.
const ShortJob = 256

// Page waits until c may look for the items of a page. The caller calls built before it sends the
// page, because a reader may take as long as it likes.
func (s *Core) Page(c *Call) (built func(), err error) {
	select {
	case s.Pages <- struct{}{}:
		return func() { <-s.Pages }, nil
	case <-c.Ctx.Done():
		return nil, c.Ctx.Err()
	}
}

// ListedType returns the type that v1.ParamType of a list names. A text that v1.QueueName does not
// make is a type: lists knew no other form before.
func ListedType(given string) string {
	if jobType, ok := v1.QueueType(given); ok {
		return jobType
	}
	return given
}

// WantsAll reports whether the call asks for all pages in one answer.
func (c *Call) WantsAll() bool {
	return c.ofNode() && c.Params.Get(v1.ParamLimit) == v1.LimitAll
}

// ofNode reports whether a node has made the call, for a client of its own contract.
func (c *Call) ofNode() bool { return c.Inner || c.ForwardedBy != nil }

func BadCursor(given string) error {
	return Fail(BadRequest, "%s is %q; must be the nextCursor of an earlier answer of the same sort", v1.ParamCursor, Shown(given))
}

// ReadLimit returns the maximum number of items of a page.
func (s *Core) ReadLimit(q url.Values) (int, error) {
	most := s.Config.Limits.ListJobs
	given := q.Get(v1.ParamLimit)
	if given == "" {
		return most, nil
	}
	n, err := strconv.Atoi(given)
	if err != nil || n < 1 {
		return 0, Fail(BadRequest, "%s is %q; must be a number from 1 to %d", v1.ParamLimit, Shown(given), most)
	}
	return min(n, most), nil
}

// NameCursorForm is the first byte of a cursor into a list by name; the last name
// follows. The cursor stays valid if that item is removed.
const NameCursorForm = 2

func NameCursorOf(last string) string { return Cursor(NameCursorForm, []byte(last)) }

// Cursor returns the cursor of a list: its form, and the position in it.
func Cursor(form byte, position []byte) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{form}, position...))
}

// ReadCursor returns the position of a cursor of that form.
func ReadCursor(form byte, given string) (position []byte, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil || len(raw) == 0 || raw[0] != form {
		return nil, BadCursor(given)
	}
	return raw[1:], nil
}

// ReadNamePage reads the requested part of a list by name: at most limit items, whose names are not below from.
func (s *Core) ReadNamePage(q url.Values) (limit int, from string, err error) {
	if limit, err = s.ReadLimit(q); err != nil {
		return 0, "", err
	}
	given := q.Get(v1.ParamCursor)
	if given == "" {
		return limit, "", nil
	}
	last, err := ReadCursor(NameCursorForm, given)
	return limit, string(last) + "\x00", err
}
