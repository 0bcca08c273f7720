package cluster

import "osqueue/internal/crontab"

// ErrSpec and ErrTimeZone are wrapped by the errors of NextTime.
var (
	ErrSpec     = crontab.ErrSpec
	ErrTimeZone = crontab.ErrZone
)

// CheckNewZone returns an error that wraps ErrTimeZone for a zone that no new schedule may have.
func CheckNewZone(timeZone string) error { return crontab.CheckNew(timeZone) }

// NextTime returns the first time of a schedule after a time, both in ms, or 0 if there
// is none. Package crontab describes specs. The error says what is wrong with the spec or
// the time zone.
func NextTime(spec, timeZone string, after int64) (int64, error) {
	s, err := crontab.Parse(spec, timeZone)
	if err != nil {
		return 0, err
	}
	return s.Next(after), nil
}
