package ui

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	v1 "osqueue/client/api/v1"
)

// functions are the functions that templates call.
var functions = template.FuncMap{
	"word":      v1.StatusWord,
	"num":       formatInt,
	"bytes":     formatBytes,
	"ago":       func(now, at int64) string { return formatDuration(now-at) + " ago" },
	"in":        func(now, at int64) string { return "in " + formatDuration(at-now) },
	"since":     func(now, at int64) string { return formatDuration(now - at) },
	"dur":       formatDuration,
	"stamp":     stamp,
	"iso":       func(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339) },
	"queuePath": func(t string) string { return segment("queues", v1.QueueName(t)) },
	"jobPath":   func(id string) string { return segment("jobs", id) },
	"cronPath":  func(name string) string { return segment("schedules", name) },
	"workPath":  func(name string) string { return segment("workers", name) },
	"hookPath":  func(name string) string { return segment("hooks", name) },
	"batchPath": func(id string) string { return segment("batches", id) },
	"holdPath":  func(name string) string { return segment("limits", name, v1.ActionHold) },
	"nameIn":    func(j v1.Job) string { return nameIn(&j) },
	"batchIn":   batchIn,
	"isPattern": func(limit string) bool { return strings.HasSuffix(limit, "*") },
	"jobsOf":    jobsOf,
	"typeName":  typeName,
	"pretty":    pretty,
	"firstLine": firstLine,
	"usd":       func(v float64) string { return fmt.Sprintf("$%.2f", v) },
	"text":      value,
	"last":      shortID,
	"cut":       cut,
	"zero":      zeroClass,
	"decimal":   decimal,
	"isGlob":    func(s string) bool { return strings.ContainsAny(s, `*?[\`) },
	"silent":    func(ms *int64) bool { return ms == nil || *ms > silentMs },
	"with_now":  func(now int64, jobs []v1.Job) jobTable { return jobTable{now, jobs} },
}

// silentMs is the time without an answer after which a member counts as out of contact. The leader
// asks several times a second.
const silentMs = 5000

// jobTable is the data of a table of jobs.
type jobTable struct {
	Now  int64
	Jobs []v1.Job
}

// jobsOf returns the path, below the base of the page, of the list of jobs with these conditions: name, value, …
// A type is written as v1.QueueName does it, because the jobs without type have a list, too.
func jobsOf(conditions ...string) string {
	values := url.Values{}
	for i := 0; i+1 < len(conditions); i += 2 {
		name, value := conditions[i], conditions[i+1]
		if name == v1.ParamType {
			value = v1.QueueName(value)
		}
		values.Set(name, value)
	}
	return "jobs?" + values.Encode()
}

// batchIn returns the id of a batch among what a job waits for; "" is a job.
func batchIn(waited string) string {
	id, ok := strings.CutPrefix(waited, "batch:")
	if !ok {
		return ""
	}
	return id
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}

func typeName(t string) string {
	if t == "" {
		return "(no type)"
	}
	return t
}

// shortID returns the end of a long id, which differs between jobs.
func shortID(id string) string {
	if len(id) <= 13 || !utf8.ValidString(id) {
		return id
	}
	if len(id) == 36 && id[8] == '-' {
		return "…" + id[23:]
	}
	return id
}

// cut returns the first runes of a text.
func cut(runes int, s string) string {
	for i := range s {
		if runes--; runes < 0 {
			return s[:i] + "…"
		}
	}
	return s
}

// zeroClass returns the class of a cell whose number is 0, with a space before it.
func zeroClass(n any) string {
	if formatInt(n) == "0" {
		return " zero"
	}
	return ""
}

// formatInt groups the digits of a number.
func formatInt(n any) string {
	switch n := n.(type) {
	case int:
		return num(int64(n))
	case int32:
		return num(int64(n))
	case int64:
		return num(n)
	case uint64:
		return num(int64(min(n, 1<<62)))
	case *uint64:
		return formatInt(*n)
	}
	return fmt.Sprint(n)
}

// decimal writes a number without exponent.
func decimal(n float64) string { return strconv.FormatFloat(n, 'f', -1, 64) }

// num writes a number with narrow spaces between groups of three digits.
func num(n int64) string {
	s := strconv.FormatInt(n, 10)
	sign := ""
	if s[0] == '-' {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0 && len(s) > 4; i -= 3 {
		s = s[:i] + "\u202f" + s[i:]
	}
	return sign + s
}

func formatBytes(n any) string {
	v, err := strconv.ParseFloat(fmt.Sprint(n), 64)
	if err != nil {
		return ""
	}
	units := []string{"B", "KiB", "MiB", "GiB", "TiB"}
	i := 0
	for ; v >= 1024 && i < len(units)-1; i++ {
		v /= 1024
	}
	if i == 0 || v >= 100 {
		return fmt.Sprintf("%.0f %s", v, units[i])
	}
	return fmt.Sprintf("%.1f %s", v, units[i])
}

// formatDuration writes a duration in ms with one or two units.
func formatDuration(ms int64) string {
	switch d := time.Duration(max(ms, 0)) * time.Millisecond; {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < 10*time.Second:
		return fmt.Sprintf("%.1f s", d.Seconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return two(int(d.Minutes()), "min", int(d.Seconds())%60, "s")
	case d < 24*time.Hour:
		return two(int(d.Hours()), "h", int(d.Minutes())%60, "min")
	default:
		return two(int(d.Hours())/24, "d", int(d.Hours())%24, "h")
	}
}

func two(a int, unit string, b int, small string) string {
	if b == 0 || a >= 10 {
		return fmt.Sprintf("%d %s", a, unit)
	}
	return fmt.Sprintf("%d %s %d %s", a, unit, b, small)
}

func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02 15:04:05 UTC") }

// prettyMax is the largest JSON that is shown, in bytes.
const prettyMax = 256 << 10

// pretty indents JSON. JSON that cannot be indented is shown as it is.
func pretty(raw json.RawMessage) string {
	if len(raw) > prettyMax {
		return strings.ToValidUTF8(string(raw[:prettyMax]), "\uFFFD") + "\n… (" + formatBytes(len(raw)) + " in all)"
	}
	var b bytes.Buffer
	if json.Indent(&b, raw, "", "  ") != nil {
		return string(raw)
	}
	return b.String()
}

// lineMax is the largest part of an error in a list, in bytes.
const lineMax = 200

// firstLine returns the line of an error that says what failed, mostly its first one, fit for a list.
func firstLine(s string) string { return listed(v1.ErrorLine(strings.TrimSpace(s))) }

// listed returns a line for a list, with spaces in place of control characters: a browser sends it
// back in a form, and would change these.
func listed(line string) string {
	if i := strings.IndexByte(line, '\r'); i >= 0 {
		line = line[:i]
	}
	line = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return ' '
		}
		return r
	}, line)
	if len(line) > lineMax {
		line = strings.ToValidUTF8(line[:lineMax], "") + "…"
	}
	return line
}
