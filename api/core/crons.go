package core

import (
	"net/http"
	"time"

	v1 "osqueue/client/api/v1"
)

var Overtaken = Kind{Status: http.StatusServiceUnavailable, Tag: v1.TagOverloaded, Title: "The schedule fires too often", Retry: time.Second}

// CheckCronName checks the name of a new schedule, which must fit into a path.
func (l *Limits) CheckCronName(name string) error {
	if name == "" || name == "." || name == ".." {
		return Bad("name", "is %q, which cannot be part of a path; choose another name", name)
	}
	return l.CheckNewName("name", name)
}

var ErrNoCron = NotThere("schedule", "the schedule does not exist")
