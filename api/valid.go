package api

import (
	"strings"
	"time"

	"osqueue/fsm"
)

// What the members of requests may hold. Each check names the member.

// checkName is for what becomes a key of the state: types, workers, requests.
func (l *Limits) checkName(member, value string) error {
	if len(value) > l.NameBytes {
		return fail(badRequest, "%s is longer than %d bytes", member, l.NameBytes)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return fail(badRequest, "%s contains the character NUL", member)
	}
	return nil
}

// checkID is for the id of a new job, which people will read and type. It must
// fit into a path: the segments of dots stand for other places there.
func (l *Limits) checkID(id string) error {
	if len(id) > l.IDChars {
		return fail(badRequest, "id is longer than %d characters", l.IDChars)
	}
	if id == "." || id == ".." {
		return fail(badRequest, "id is %q, which a path cannot hold", id)
	}
	for _, r := range id {
		if r <= ' ' || r >= 0x7f {
			return fail(badRequest, "id contains %q; use visible ASCII characters only", r)
		}
	}
	return nil
}

// checkMs is for durations in milliseconds.
func checkMs(member string, ms int64, limit time.Duration) error {
	if ms < 0 {
		return fail(badRequest, "%s is negative", member)
	}
	if ms > limit.Milliseconds() {
		return fail(badRequest, "%s is more than %d (%s)", member, limit.Milliseconds(), limit)
	}
	return nil
}

// worker is the machine's name for a worker.
func (l *Limits) worker(name *string) (string, error) {
	if name == nil {
		return fsm.Anonymous, nil
	}
	return *name, l.checkName("workerId", *name)
}

// checkCount is for the items of a batch.
func (l *Limits) checkCount(n int) error {
	if n == 0 {
		return fail(badRequest, "jobs is empty")
	}
	if n > l.BatchJobs {
		return fail(tooLarge, "jobs has %d items; at most %d a call", n, l.BatchJobs)
	}
	return nil
}

// checkJobID is for ids by which jobs are looked up.
func checkJobID(id string) error {
	if id == "" {
		return fail(badRequest, "jobId is missing")
	}
	if len(id) > pathIDMax {
		return fail(badRequest, "jobId is longer than %d bytes", pathIDMax)
	}
	return nil
}

func (l *Limits) checkNames(member string, values []string) error {
	for _, v := range values {
		if err := l.checkName(member, v); err != nil {
			return err
		}
	}
	return nil
}
