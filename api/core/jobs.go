package core

import (
	"osqueue/fsm"
)

// Ended reports whether a job is completed, dead or cancelled. After that it changes only on
// request.
func Ended(j *fsm.Job) bool {
	return j.Status == fsm.Completed || j.Status == fsm.Dead || j.Status == fsm.Cancelled
}
