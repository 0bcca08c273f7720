package queuefile

// JobLeast is the lower bound of what a job takes.
const JobLeast = jobLeast

// TryInline appends the inline form within c's bound, and returns how many bytes
// it appended until it was done or gave up.
func TryInline(c *Content, h Header, broker string, heartbeatMs int64) (appended int, fits bool) {
	a := appender{limit: c.limit(0)}
	h.Address, h.Heartbeat = broker, heartbeatMs
	fits = a.inline(c, h)
	return len(a.buf), fits
}

// LaterMembers are the names of which headers speak.
func LaterMembers() []string { return laterMembers }

// ForgetPlaces drops the places that jobs had where the document was read.
func (d *Document) ForgetPlaces() { d.given = nil }
