package inbox

import (
	"errors"
	"slices"

	"osqueue/fsm"
)

// verdict is what the machine's answer means for a file.
type verdict int

const (
	added    verdict = iota // the job is in the machine
	repeated                // it was before, or nothing is to be added
	later                   // the queue is full: other jobs have to go first
	awaits                  // a job that it waits for is not there; it may come
	bad                     // it will not get better
)

// errUsedID is what a conflict of requests means to somebody who put a file: the key
// of the request is the id, and no key that a producer has heard of.
var errUsedID = errors.New("the id was used before, for a file with other content: put this one under a new id")

// reasonOf is why a file that the machine refuses is rejected.
func reasonOf(code fsm.Code) error {
	if code == fsm.RequestConflict {
		return errUsedID
	}
	return code.Err()
}

// judge reads the answer to an enqueue of one job.
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
