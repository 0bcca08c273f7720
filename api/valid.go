package api

import (
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

// Checks of the fields of requests. Each check names the field as people write it:
// backoff.kind, tags[3].

// bad returns the refusal of a field.
func bad(member, format string, args ...any) *failure {
	f := fail(badRequest, "%s %s", member, fmt.Sprintf(format, args...))
	f.members = []string{pointer(member)}
	return f
}

var toPointer = strings.NewReplacer(".", "/", "[", "/", "]", "")

// pointer returns the JSON pointer to a field.
func pointer(member string) string { return "/" + toPointer.Replace(member) }

// checkName checks a name for a lookup. Names from legacy documents may contain any byte except
// NUL.
func (l *Limits) checkName(member, value string) error {
	if len(value) > l.NameBytes {
		return bad(member, "has %d bytes; at most %d are allowed", len(value), l.NameBytes)
	}
	if strings.IndexByte(value, 0) >= 0 {
		return bad(member, "contains the character NUL")
	}
	return nil
}

// checkNewName checks a new key of the state, which people will read in lists and logs.
func (l *Limits) checkNewName(member, value string) error {
	if err := l.checkName(member, value); err != nil {
		return err
	}
	return checkReadable(member, value)
}

// checkPathName is checkNewName for a name that must fit into a path, where the segments . and
// .. have another meaning.
func (l *Limits) checkPathName(member, value string) error {
	if value == "." || value == ".." {
		return bad(member, "is %q, which cannot be part of a path", value)
	}
	return l.checkNewName(member, value)
}

func checkReadable(member, value string) error {
	for _, r := range value {
		switch {
		case r == utf8.RuneError:
			return bad(member, "contains U+FFFD, or text that is not Unicode")
		case unicode.IsControl(r):
			return bad(member, "contains the control character U+%04X", r)
		}
	}
	return nil
}

func (l *Limits) checkNewNames(member string, values []string) error {
	for i, v := range values {
		if l.checkNewName("", v) != nil {
			return l.checkNewName(fmt.Sprintf("%s[%d]", member, i), v)
		}
	}
	return nil
}

// checkID checks the id of a new job or batch, which people will read and type. It must fit
// into a path, where the segments . and .. have another meaning, also for programs that use ids as
// the names of files. The empty id means none.
func (l *Limits) checkID(member, id string) error {
	if len(id) > l.IDChars {
		return bad(member, "has %d characters; at most %d are allowed", len(id), l.IDChars)
	}
	if strings.HasPrefix(id, "/") {
		return bad(member, "begins with /: a program that uses it as a file name would write outside its directory")
	}
	if strings.Contains(id, ".") {
		for segment := range strings.FieldsFuncSeq(id, func(r rune) bool { return r == '/' || r == '\\' }) {
			if segment == "." || segment == ".." {
				return bad(member, "has the segment %q, which cannot be part of a path", segment)
			}
		}
	}
	for _, r := range id {
		if r <= ' ' || r >= 0x7f {
			return bad(member, "contains %q; use visible ASCII characters only", r)
		}
	}
	return nil
}

// checkMs checks a duration in milliseconds.
func checkMs(member string, ms int64, limit time.Duration) error {
	if ms < 0 {
		return bad(member, "is %d; must not be negative", ms)
	}
	if ms > limit.Milliseconds() {
		return bad(member, "is %d; must be at most %d (%s)", ms, limit.Milliseconds(), limit)
	}
	return nil
}

// checkRange checks a number with bounds.
func checkRange(member string, n, low, high int64) error {
	if n < low || n > high {
		return bad(member, "is %d; must be from %d to %d", n, low, high)
	}
	return nil
}

// unknownValue returns the refusal of a value that is not one of the possible ones.
func unknownValue(member, given string, possible ...string) error {
	last := len(possible) - 1
	return bad(member, "is %q; must be %s or %s", shown(given), strings.Join(possible[:last], ", "), possible[last])
}

// worker checks and returns the name of a worker.
func (l *Limits) worker(name *string) (string, error) {
	if name == nil {
		return fsm.Anonymous, nil
	}
	return *name, l.checkName("workerId", *name)
}

// checkCount checks the number of items of a batch.
func (l *Limits) checkCount(n int) error {
	if n == 0 {
		return bad("jobs", "is empty")
	}
	return l.checkMost("jobs", n)
}

func (l *Limits) checkMost(member string, n int) error {
	if n > l.BatchJobs {
		return fail(tooLarge, "%s has %d items; a call may have at most %d", member, n, l.BatchJobs)
	}
	return nil
}

// checkJobID checks an id for a lookup of a job.
func checkJobID(member, id string) error {
	if id == "" {
		return bad(member, "is missing")
	}
	if len(id) > pathIDMax {
		return bad(member, "has %d bytes; at most %d are allowed", len(id), pathIDMax)
	}
	return nil
}

func (l *Limits) checkTags(tags []string) error {
	if len(tags) > l.Tags {
		return bad("tags", "has %d items; a job may have at most %d", len(tags), l.Tags)
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
		return bad(member, "is empty")
	}
	if len(tag) > l.TagBytes {
		return bad(member, "has %d bytes; at most %d are allowed", len(tag), l.TagBytes)
	}
	return checkReadable(member, tag)
}

// readBackoff checks a backoff; nil means that none is given.
func (l *Limits) readBackoff(member string, in *v1.Backoff) (*fsmpb.Backoff, error) {
	if in == nil {
		return nil, nil
	}
	kind, known := fsm.ParseBackoffKind(in.Kind)
	if !known {
		return nil, unknownValue(member+".kind", in.Kind,
			v1.BackoffNone, v1.BackoffFixed, v1.BackoffLinear, v1.BackoffExponential)
	}
	if kind != fsm.BackoffNone && in.BaseMs == 0 {
		return nil, bad(member+".baseMs", "is missing; the kind %q needs it", in.Kind)
	}
	if err := checkMs(member+".baseMs", in.BaseMs, l.Delay); err != nil {
		return nil, err
	}
	if err := checkMs(member+".capMs", in.CapMs, l.Delay); err != nil {
		return nil, err
	}
	if err := checkRange(member+".jitter", in.Jitter, 0, 100); err != nil {
		return nil, err
	}
	return &fsmpb.Backoff{Kind: uint32(kind), BaseMs: in.BaseMs, CapMs: in.CapMs, JitterPercent: uint32(in.Jitter)}, nil
}
