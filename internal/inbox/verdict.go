package inbox

import (
	"errors"
	"slices"

	"osqueue/fsm"
)

// verdict is the meaning of the machine's answer for a file.
type verdict int

const (
	added    verdict = iota // the job is in the machine
	repeated                // the job or its unique key existed; nothing was added
	later                   // the queue is full: other jobs must leave first
	awaits                  // a job that it depends on is missing, and may still come
	bad                     // it can never be accepted
)

// errUsedID replaces a request conflict in the reason for a producer: the key of the
// request comes from the id, and the producer does not know it.
var errUsedID = errors.New("the id was used before for a file with other content: use a new id")

// reasonOf returns the reason for the rejection of a file that the machine refuses.
func reasonOf(code fsm.Code) error {
	if code == fsm.RequestConflict {
		return errUsedID
	}
	return code.Err()
}

// judge interprets the answer to an enqueue of one job.
func judge(res fsm.Result) verdict {
	switch {
	case res.Code == fsm.Duplicate, res.Code.Done() && slices.Contains(res.Codes, fsm.Duplicate):
		return repeated
	case res.Code.Done():
		return added
	}
	switch res.Code {
	case fsm.TooManyJobs, fsm.TooManyBytes:
		return later
	case fsm.NoSuchJob:
		return awaits
	}
	return bad
}
