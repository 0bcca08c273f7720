package api

import (
	"encoding/base64"

	v1 "osqueue/client/api/v1"
)

// nameCursorForm is the first byte of a cursor into a list by name; the last name
// follows. The cursor stays valid if that item is removed.
const nameCursorForm = 2

func nameCursorOf(last string) string {
	return base64.RawURLEncoding.EncodeToString(append([]byte{nameCursorForm}, last...))
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
	if err != nil || len(raw) == 0 || raw[0] != nameCursorForm {
		return afterName{}, fail(badRequest, "%s is %q; must be the nextCursor of an earlier answer", v1.ParamCursor, shown(given))
	}
	return afterName{given: true, last: string(raw[1:])}, nil
}

// from returns the lower bound of the remaining names.
func (a afterName) from() string {
	if !a.given {
		return ""
	}
	return a.last + "\x00"
}
