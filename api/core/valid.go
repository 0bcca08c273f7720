package core

import (
	"cmp"
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/backoff"
	"osqueue/fsm/fsmpb"
)

// Checks of the fields of requests. Each check names the field as people write it:
// backoff.kind, tags[3].

// Bad returns the refusal of a field.
func Bad(member, format string, args ...any) *Failure {
	f := Fail(BadRequest, "%s %s", member, fmt.Sprintf(format, args...))
	f.Members = []string{pointer(member)}
	return f
}

var toPointer = strings.NewReplacer(".", "/", "[", "/", "]", "")

// pointer returns the JSON pointer to a field.
func pointer(member string) string { return "/" + toPointer.Replace(member) }

// CheckName checks a name for a lookup. Names from legacy documents may contain any byte except
// NUL.
func (l *Limits) CheckName(member, value string) error {
	if len(value) > l.NameBytes {
		return Bad(member, "has %d bytes; at most %d are allowed", len(value), l.NameBytes)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return Bad(member, "contains the character NUL")
	}
	return nil
}

// CheckNewName checks a new key of the state, which people will read in lists and logs.
func (l *Limits) CheckNewName(member, value string) error {
	if err := l.CheckName(member, value); err != nil {
		return err
	}
	return CheckReadable(member, value)
}

// CheckPathName is CheckNewName for a name that must fit into a path, where the segments . and
// .. have another meaning.
func (l *Limits) CheckPathName(member, value string) error {
	if value == "." || value == ".." {
		return Bad(member, "is %q, which cannot be part of a path", value)
	}
	return l.CheckNewName(member, value)
}

func CheckReadable(member, value string) error {
	for _, r := range value {
		switch {
		case r == utf8.RuneError:
			return Bad(member, "contains U+FFFD, or text that is not Unicode")
		case unicode.IsControl(r):
			return Bad(member, "contains the control character U+%04X", r)
		}
	}
	return nil
}

func (l *Limits) CheckNewNames(member string, values []string) error {
	for i, v := range values {
		if l.CheckNewName("", v) != nil {
			return l.CheckNewName(fmt.Sprintf("%s[%d]", member, i), v)
		}
	}
	return nil
}

// CheckID checks the id of a new job or batch, which people will read and type. It must fit
// into a path, where the segments . and .. have another meaning, also for programs that use ids as
// the names of files. The empty id means none.
func (l *Limits) CheckID(member, id string) error {
	if len(id) > l.IDChars {
		return Bad(member, "has %d characters; at most %d are allowed", len(id), l.IDChars)
	}
	if strings.HasPrefix(id, "/") {
		return Bad(member, "begins with /: a program that uses it as a file name would write outside its directory")
	}
	if strings.Contains(id, ".") {
		for segment := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
			if segment == "." || segment == ".." {
				return Bad(member, "has the segment %q, which cannot be part of a path", segment)
			}
		}
	}
	for _, r := range id {
		if r <= ' ' || r >= 0x7f {
			return Bad(member, "contains %q; use visible ASCII characters only", r)
		}
	}
	return nil
}

// CheckMs checks a duration in milliseconds.
func CheckMs(member string, ms int64, limit time.Duration) error {
	if ms < 0 {
		return Bad(member, "is %d; must not be negative", ms)
	}
	if ms > limit.Milliseconds() {
		return Bad(member, "is %d; must be at most %d (%s)", ms, limit.Milliseconds(), limit)
	}
	return nil
}

// CheckRange checks a number with bounds.
func CheckRange(member string, n, low, high int64) error {
	if n < low || n > high {
		return Bad(member, "is %d; must be from %d to %d", n, low, high)
	}
	return nil
}

// UnknownValue returns the refusal of a value that is not one of the possible ones.
func UnknownValue(member, given string, possible ...string) error {
	last := len(possible) - 1
	return Bad(member, "is %q; must be %s or %s", Shown(given), strings.Join(possible[:last], ", "), possible[last])
}

// Choice reads the name of one of the values of the machine; "" is the first.
func Choice[K interface {
	~uint8
	fmt.Stringer
}](member, given string, values ...K) (uint32, error) {
	if given == "" {
		return uint32(values[0]), nil
	}
	names := make([]string, len(values))
	for i, v := range values {
		if names[i] = v.String(); given == names[i] {
			return uint32(v), nil
		}
	}
	return 0, UnknownValue(member, given, names...)
}

// Worker checks and returns the name of a worker.
func (l *Limits) Worker(name *string) (string, error) {
	if name == nil {
		return fsm.Anonymous, nil
	}
	return *name, l.CheckName("workerId", *name)
}

// CheckCount checks the number of items of a batch.
func (l *Limits) CheckCount(n int) error {
	if n == 0 {
		return Bad("jobs", "is empty")
	}
	return l.CheckMost("jobs", n)
}

func (l *Limits) CheckMost(member string, n int) error {
	if n > l.BatchJobs {
		return Fail(tooLarge, "%s has %d items; a call may have at most %d", member, n, l.BatchJobs)
	}
	return nil
}

// CheckJobID checks an id for a lookup of a job.
func CheckJobID(member, id string) error {
	if id == "" {
		return Bad(member, "is missing")
	}
	if len(id) > PathIDMax {
		return Bad(member, "has %d bytes; at most %d are allowed", len(id), PathIDMax)
	}
	return nil
}

func (l *Limits) checkTags(tags []string) error {
	if len(tags) > l.Tags {
		return Bad("tags", "has %d items; a job may have at most %d", len(tags), l.Tags)
	}
	for i, tag := range tags {
		if l.checkTag("", tag) != nil {
			return l.checkTag(fmt.Sprintf("tags[%d]", i), tag)
		}
	}
	return nil
}

func (l *Limits) checkTag(member, tag string) error {
	if tag == "" {
		return Bad(member, "is empty")
	}
	if len(tag) > l.TagBytes {
		return Bad(member, "has %d bytes; at most %d are allowed", len(tag), l.TagBytes)
	}
	return CheckReadable(member, tag)
}

// ReadBackoff checks a backoff; nil means that none is given.
func (l *Limits) ReadBackoff(member string, in *v1.Backoff) (*fsmpb.Backoff, error) {
	if in == nil {
		return nil, nil
	}
	kind, known := backoff.ParseKind(in.Kind)
	if !known {
		return nil, UnknownValue(member+".kind", in.Kind,
			v1.BackoffNone, v1.BackoffFixed, v1.BackoffLinear, v1.BackoffExponential)
	}
	if kind != backoff.None && in.BaseMs == 0 {
		return nil, Bad(member+".baseMs", "is missing; the kind %q needs it", in.Kind)
	}
	err := cmp.Or(CheckMs(member+".baseMs", in.BaseMs, l.Delay), CheckMs(member+".capMs", in.CapMs, l.Delay), CheckRange(member+".jitter", in.Jitter, 0, 100))
	if err != nil {
		return nil, err
	}
	return &fsmpb.Backoff{Kind: uint32(kind), BaseMs: in.BaseMs, CapMs: in.CapMs, JitterPercent: uint32(in.Jitter)}, nil
}

// CheckCronName checks the name of a new schedule, which must fit into a path.
func (l *Limits) CheckCronName(name string) error {
	if name == "" || name == "." || name == ".." {
		return Bad("name", "is %q, which cannot be part of a path; choose another name", name)
	}
	return l.CheckNewName("name", name)
}

// JobType returns the type that the path names.
func (c *Call) JobType() (string, error) {
	jobType, known := v1.QueueType(c.Name)
	if !known {
		return "", Fail(BadRequest, "the type %q is not valid in a path; write ~ for the jobs without type, and one more ~ before a "+
			"type that begins with ~", Shown(c.Name))
	}
	return jobType, nil
}

// NewJobType is JobType for new settings: new jobs must be able to have the type.
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
