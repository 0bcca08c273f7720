package v1

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// StatusAll stands for all of them in the query of a list.
const StatusAll = "all"

// The words for two statuses that people read and write. The wire has older names
// for them, on which programs depend.
const (
	WordAvailable = "available" // StatusUnclaimed
	WordRunning   = "running"   // StatusInProgress
)

// StatusWord returns the word that people read for a status of the wire.
func StatusWord(status string) string {
	return cmp.Or(map[string]string{StatusUnclaimed: WordAvailable, StatusInProgress: WordRunning}[status], status)
}

// StatusOf returns the status of the wire for a word. Names of the wire, and unknown
// words, stay as they are.
func StatusOf(word string) string {
	return cmp.Or(map[string]string{WordAvailable: StatusUnclaimed, WordRunning: StatusInProgress}[word], word)
}

// QueueName is how a type is named in the paths below PathQueues, where it must
// be escaped like every segment. "~" stands for the jobs without type; a type
// that begins with "~" gets one more in front.
func QueueName(jobType string) string {
	if jobType == "" || strings.HasPrefix(jobType, "~") {
		return "~" + jobType
	}
	return jobType
}

// QueueType reads what QueueName makes; ok is false for anything else.
func QueueType(name string) (jobType string, ok bool) {
	rest, marked := strings.CutPrefix(name, "~")
	if !marked {
		return name, name != ""
	}
	return rest, rest == "" || rest[0] == '~'
}

// UniqueKey returns the unique key that the values of members of a payload make: a hash of their canonical JSON (RFC 8785). A
// member that is absent counts as null, but one of them must be there.
func UniqueKey(payload []byte, fields []string) (string, error) {
	var members map[string]jsontext.Value
	if err := json.Unmarshal(payload, &members); err != nil || members == nil {
		return "", errors.New("need a payload that is an object and not encrypted")
	}
	var values jsontext.Value = []byte{'['}
	found := false
	for i, name := range fields {
		if i > 0 {
			values = append(values, ',')
		}
		value, there := members[name]
		if !there {
			value = []byte("null")
		}
		found = found || there
		values = append(values, value...)
	}
	if values = append(values, ']'); !found {
		return "", fmt.Errorf("name %q, of which the payload has none (or it is encrypted)", fields)
	}
	if err := values.Canonicalize(); err != nil {
		return "", fmt.Errorf("cannot be compared: %w", err)
	}
	sum := sha256.Sum256(append([]byte(strings.Join(fields, "\x00")+"\x00"), values...))
	return "fields:" + hex.EncodeToString(sum[:16]), nil
}

// LacksWorker reports whether a type has available jobs that none of the workers takes.
func (q *Queue) LacksWorker(workers []Worker) bool {
	return q.Unclaimed > 0 && q.InProgress == 0 &&
		!slices.ContainsFunc(workers, func(w Worker) bool { return w.Takes(q.Type) })
}

// Takes reports whether a worker takes new jobs of a type.
func (w *Worker) Takes(jobType string) bool {
	return w.GoneAt == 0 && w.QuietSince == 0 && (len(w.Types) == 0 || slices.Contains(w.Types, jobType))
}

// Has reports whether the caller has a right.
func (s *Self) Has(right string) bool { return slices.Contains(s.Rights, right) }

// ValidJSON reports whether a text can be a payload or a result: JSON as in RFC 8259, in UTF-8. Names may
// repeat, and strings may have lone surrogates as escapes; the queue keeps them.
func ValidJSON(text []byte) bool {
	return utf8.Valid(text) && jsontext.Value(text).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
}

// ErrorLine returns the line of an error text that says what failed: the first one or, of a Python
// traceback, the last one that is not indented.
func ErrorLine(text string) string {
	first, rest, _ := strings.Cut(text, "\n")
	if strings.HasPrefix(first, "Traceback (") {
		for line := range strings.SplitSeq(rest, "\n") {
			if strings.TrimSpace(line) != "" && line[0] != ' ' && line[0] != '\t' {
				first = line
			}
		}
	}
	return strings.TrimRight(first, "\r")
}

// variable are the parts of an error that differ between jobs which failed for the same reason: ids,
// hexadecimal numbers, and numbers.
var variable = regexp.MustCompile(`[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}|0[xX][0-9a-fA-F]+|\b([a-fA-F]*[0-9]){2}[0-9a-fA-F]{6,}\b|[0-9]+`)

// ErrorGroup returns what an error has in common with others of the same reason: its ErrorLine, with #
// in place of ids and numbers.
func ErrorGroup(text string) string { return variable.ReplaceAllLiteralString(ErrorLine(text), "#") }

// HeaderTraceparent is the header of jobs, and of requests, with the context of a trace, as the
// W3C defines it: 00-TRACE-SPAN-FLAGS.
const HeaderTraceparent = "traceparent"

// TraceID returns the id of the trace in a traceparent, or "" if the text is none.
func TraceID(traceparent string) string {
	const pattern = "vv-tttttttttttttttttttttttttttttttt-ssssssssssssssss-ff"
	if len(traceparent) != len(pattern) {
		return ""
	}
	for i, c := range []byte(traceparent) {
		hex := c >= '0' && c <= '9' || c >= 'a' && c <= 'f'
		if dash := pattern[i] == '-'; dash != (c == '-') || !dash && !hex {
			return ""
		}
	}
	id := traceparent[3:35]
	if strings.Trim(id, "0") == "" {
		return ""
	}
	return id
}
