package core

import (
	"encoding/base64"

	v1 "osqueue/client/api/v1"
)

// NameCursorForm is the first byte of a cursor into a list by name; the last name
// follows. The cursor stays valid if that item is removed.
const NameCursorForm = 2

func NameCursorOf(last string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{NameCursorForm}, last...))
}

// afterName is the position in a list by name after the last name shown. The zero value is the
// beginning.
type afterName struct {
	given bool
	last  string
}

func readNameCursor(given string) (afterName, error) {
	if given == "" {
		return afterName{}, nil
	}
	raw, err := base64.RawURLEncoding.DecodeString(given)
	if err != nil || len(raw) == 0 || raw[0] != NameCursorForm {
		return afterName{}, Fail(BadRequest, "%s is %q; must be the nextCursor of an earlier answer", v1.ParamCursor, Shown(given))
	}
	return afterName{given: true, last: string(raw[1:])}, nil
}

// From returns the lower bound of the remaining names.
func (a afterName) From() string {
	if !a.given {
		return ""
	}
	return a.last + "\x00"
}
