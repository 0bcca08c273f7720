package core

import (
	"math"

	v1 "osqueue/client/api/v1"
)

// JobType returns the type that the path names.
func (c *Call) JobType() (string, error) {
	name, err := c.Variable()
	if err != nil {
		return "", err
	}
	jobType, known := v1.QueueType(name)
	if !known {
		return "", Fail(BadRequest, "the type %q is not valid in a path; write ~ for the jobs without type, and one more ~ before a "+
			"type that begins with ~", Shown(name))
	}
	return jobType, nil
}

// NewJobType is jobType for new settings: new jobs must be able to have the type.
func (c *Call) NewJobType() (string, error) {
	jobType, err := c.JobType()
	if err != nil {
		return "", err
	}
	return jobType, c.Core.Config.Limits.CheckPathName("type", jobType)
}

// Bounds of settings that only a type has.
const (
	Milli       = 1000 // the machine counts rates in thousandths
	RateMin     = 0.001
	RateMax     = 1_000_000
	BurstMax    = 1_000_000
	AttemptsMax = math.MaxInt32
)
