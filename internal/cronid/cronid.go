// Package cronid makes the ids of the jobs that schedules enqueue. Such an id is a UUID
// of version 8 (RFC 9562) whose first 48 bits are the scheduled time of the job. A job
// therefore knows that time in every attempt.
package cronid

import (
	"encoding/binary"

	"github.com/google/uuid"
)

// New returns a new id for the time at, in ms since 1970.
func New(at int64) (string, error) {
	id, err := uuid.NewRandom()
	if err != nil {
		return "", err
	}
	var ms [8]byte
	binary.BigEndian.PutUint64(ms[:], uint64(at))
	copy(id[:6], ms[2:])
	id[6] = id[6]&0x0f | 0x80
	return id.String(), nil
}

// Time returns the time in an id of New. It returns false for any other id, such as that
// of a job that was triggered by hand.
func Time(id string) (at int64, ok bool) {
	u, err := uuid.Parse(id)
	if err != nil || u.Version() != 8 || u.Variant() != uuid.RFC4122 {
		return 0, false
	}
	var ms [8]byte
	copy(ms[2:], u[:6])
	return int64(binary.BigEndian.Uint64(ms[:])), true
}
