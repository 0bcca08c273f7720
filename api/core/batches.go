package core

import (
	"osqueue/fsm"
)

// NotThere returns the refusal of a name that does not exist.
func NotThere(what, detail string) error {
	k := FailureOf(fsm.NotFound.Err()).Kind
	k.Title = "There is no such " + what
	return Fail(k, "%s", detail)
}
