package document

import (
	"math"

	"osqueue/fsm"
)

// JobLeast is the lower bound of the bytes of a job.
const JobLeast = jobLeast

// TryInline appends the inline form within c's bound, and returns the number of bytes that
// it appended until it finished or stopped, and whether the state fits.
func TryInline(c *Content, h Header, broker string, heartbeatMs int64) (appended int, fits bool) {
	a := appender{limit: c.limit(0)}
	h.Address, h.Heartbeat = broker, heartbeatMs
	fits = a.inline(c, h)
	return len(a.buf), fits
}

// TryLiveJobs appends the list of live jobs of a large document, and returns the number of
// bytes that it appended until it finished or stopped, and whether the list fits.
func TryLiveJobs(v *fsm.View, bytesMax int) (appended int, fits bool) {
	a := appender{buf: []byte("{"), limit: math.MaxInt}
	fits = a.tryLiveJobs(v, len("{")+bytesMax)
	return len(a.buf) - len("{"), fits
}

// ForgetPlaces drops the positions that the jobs had in the document.
func (d *File) ForgetPlaces() { d.given = nil }
