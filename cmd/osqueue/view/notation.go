package view

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// ParseRate parses a rate such as 10/s, 600/m or 5000/h, and returns it per second.
func ParseRate(text string) (float64, error) {
	number, factor := text, 1.0
	for unit, seconds := range map[string]float64{"/s": 1, "/m": 60, "/h": 3600} {
		if rest, ok := strings.CutSuffix(text, unit); ok {
			number, factor = rest, seconds
		}
	}
	n, err := strconv.ParseFloat(number, 64)
	rate := n / factor
	if err != nil || math.IsNaN(rate) || rate < 0.001 || rate > 1e6 {
		return 0, fmt.Errorf("%q is not a rate: write it as in 10/s, 600/m or 5000/h, at least 0.001 and at most 1000000 a second", text)
	}
	return rate, nil
}

// RateText formats a rate in the notation of ParseRate. It returns "" for none.
func RateText(perSecond float64) string {
	if perSecond == 0 {
		return ""
	}
	return strconv.FormatFloat(perSecond, 'g', 6, 64) + "/s"
}

// ShellWord quotes a text for a shell's command line.
func ShellWord(text string) string {
	plain := func(r rune) bool {
		return 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("-_./:@,+=%", r)
	}
	if text != "" && strings.IndexFunc(text, func(r rune) bool { return !plain(r) }) < 0 {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}

// ShellWords quotes texts for a shell's command line.
func ShellWords(texts []string) string {
	words := make([]string, len(texts))
	for i, text := range texts {
		words[i] = ShellWord(text)
	}
	return strings.Join(words, " ")
}

// AllStatuses are the statuses of a job, in the order of its life.
var AllStatuses = []string{
	v1.StatusBlocked, v1.StatusScheduled, v1.StatusUnclaimed, v1.StatusInProgress,
	v1.StatusCompleted, v1.StatusDead, v1.StatusCancelled, v1.StatusExpired,
}

// StatusWords returns the names that people read for statuses of the wire.
func StatusWords(statuses []string) []string {
	out := make([]string, len(statuses))
	for i, s := range statuses {
		out[i] = v1.StatusWord(s)
	}
	return out
}

// ParseStatuses returns a function that reads a list of statuses, in the names of people or of the wire, of
// which known are possible, and adds them to a list.
func ParseStatuses(to *[]string, known []string) func(string) ([]string, error) {
	return func(text string) ([]string, error) {
		all := *to
		for word := range strings.SplitSeq(text, ",") {
			status := v1.StatusOf(strings.TrimSpace(word))
			if status != v1.StatusAll && !slices.Contains(known, status) {
				return nil, fmt.Errorf("%q is not a status for this command: use %s, or all", word, strings.Join(StatusWords(known), ", "))
			}
			all = append(all, status)
		}
		return all, nil
	}
}

// UniqueHelp is the notation of a unique key, for the help of commands.
const UniqueHelp = `With --unique KEY[:SCOPE] no job is added while another job of the type holds KEY; the
command prints the id of that job. ` + UniqueForm

// UniqueForm is the notation of the scope alone.
const UniqueForm = `SCOPE is how long a job holds its key:
waiting (until it is claimed), active (until it has ended; the default) or
period:LENGTH, as in order-7:period:1h. If the key itself ends like a scope, add a
scope.`

// Conflict is what ParseConflict reads.
type Conflict struct {
	Kind      string // as client.NewJob.OnConflict
	Wait, Max time.Duration
}

// CutConflict cuts :replace or :debounce:WAIT[:max=WAIT] off a unique key.
func CutConflict(text string) (rest string, c Conflict, err error) {
	if rest, ok := strings.CutSuffix(text, ":"+v1.ConflictReplace); ok {
		return rest, Conflict{Kind: v1.ConflictReplace}, nil
	}
	parts := strings.Split(text, ":")
	if last, ok := strings.CutPrefix(parts[len(parts)-1], "max="); ok && len(parts) > 3 {
		if c.Max, err = ParseSpan(last); err != nil {
			return text, c, err
		}
		parts = parts[:len(parts)-1]
	}
	n := len(parts)
	if n < 3 || parts[n-2] != v1.ConflictDebounce {
		return text, Conflict{}, nil
	}
	c.Kind = v1.ConflictDebounce
	c.Wait, err = ParseSpan(parts[n-1])
	return strings.Join(parts[:n-2], ":"), c, err
}

// ParseUnique parses KEY, KEY:waiting, KEY:active or KEY:period:LENGTH. Keys may contain
// colons.
func ParseUnique(text string) (client.Unique, error) {
	u, err := cutScope(text)
	if err == nil && u.Key == "" {
		err = fmt.Errorf("%q has no key: write KEY[:SCOPE], as in order-7:period:1h", text)
	}
	return u, err
}

func cutScope(text string) (client.Unique, error) {
	for _, scope := range []string{v1.UniqueWaiting, v1.UniqueActive} {
		if key, ok := strings.CutSuffix(text, ":"+scope); ok {
			return client.Unique{Key: key, Scope: scope}, nil
		}
	}
	if strings.HasSuffix(text, ":"+v1.UniquePeriod) {
		return client.Unique{}, fmt.Errorf("%q: the length of the period is missing: write it as in %s:1h", text, text)
	}
	parts := strings.Split(text, ":")
	n := len(parts)
	if n < 3 || parts[n-2] != v1.UniquePeriod {
		return client.Unique{Key: text}, nil
	}
	period, err := ParseSpan(parts[n-1])
	if err == nil && period < time.Millisecond {
		err = fmt.Errorf("%q: the period must be at least 1ms", text)
	}
	return client.Unique{Key: strings.Join(parts[:n-2], ":"), Scope: v1.UniquePeriod, Period: period}, err
}

// UniqueText formats a job's key in the notation of ParseUnique. It returns "" if the
// job has none.
func UniqueText(j v1.Job) string {
	switch {
	case j.UniqueKey == "" || j.UniqueScope == "":
		return j.UniqueKey
	case j.UniqueScope == v1.UniquePeriod:
		return j.UniqueKey + ":" + j.UniqueScope + ":" + MsText(j.UniqueMs)
	}
	return j.UniqueKey + ":" + j.UniqueScope
}

// BackoffHelp is the notation of a backoff, for the help of commands.
const BackoffHelp = `A backoff is the wait after a failed attempt: none, or KIND:BASE[:CAP][:JITTER%].
KIND is fixed (always BASE), linear (BASE, 2·BASE, 3·BASE…) or exponential (BASE,
2·BASE, 4·BASE…). CAP is the longest wait. A random part of the wait, at most JITTER, is
subtracted. Example: exponential:1s:1h:20%.`

var backoffKinds = []string{v1.BackoffFixed, v1.BackoffLinear, v1.BackoffExponential}

// ParseBackoff reads none or KIND:BASE[:CAP][:JITTER%].
func ParseBackoff(text string) (client.Backoff, error) {
	parts := strings.Split(text, ":")
	b := client.Backoff{Kind: parts[0]}
	if b.Kind == v1.BackoffNone && len(parts) == 1 {
		return b, nil
	}
	if !slices.Contains(backoffKinds, b.Kind) {
		return b, fmt.Errorf("%q is not a backoff: write none, or KIND:BASE[:CAP][:JITTER%%] with the kind fixed, linear or exponential, as in exponential:1s:1h:20%%", text)
	}
	parts = parts[1:]
	if n := len(parts); n > 0 && strings.HasSuffix(parts[n-1], "%") {
		percent, err := strconv.Atoi(strings.TrimSuffix(parts[n-1], "%"))
		if err != nil || percent < 0 || percent > 100 {
			return b, fmt.Errorf("backoff %q: the jitter %q must be 0%% to 100%%", text, parts[n-1])
		}
		b.Jitter, parts = percent, parts[:n-1]
	}
	if len(parts) < 1 || len(parts) > 2 {
		return b, fmt.Errorf("backoff %q: write %s:BASE[:CAP][:JITTER%%], as in %s:1s:1h:20%%", text, b.Kind, b.Kind)
	}
	return withTimes(b, text, parts)
}

// withTimes returns b with the base and, if there are two texts, the cap.
func withTimes(b client.Backoff, text string, times []string) (client.Backoff, error) {
	for i, to := range []*time.Duration{&b.Base, &b.Cap}[:len(times)] {
		d, err := ParseSpan(times[i])
		if err != nil {
			return b, fmt.Errorf("backoff %q: %w", text, err)
		}
		if d < time.Millisecond {
			return b, fmt.Errorf("backoff %q: %s must be at least 1ms", text, times[i])
		}
		*to = d
	}
	return b, nil
}

// ParseOnError reads CLASS=dead or CLASS=retry[:DELAY].
func ParseOnError(text string) (rule client.OnError, err error) {
	at := strings.LastIndexByte(text, '=')
	action, delay, delayed := strings.Cut(text[at+1:], ":")
	if rule.Dead = action == v1.OnErrorDead; delayed {
		rule.Delay, err = ParseSpan(delay)
	}
	if at < 1 || err != nil || rule.Dead && delayed || !rule.Dead && action != v1.OnErrorRetry {
		return rule, fmt.Errorf("%q: write CLASS=dead, CLASS=retry or CLASS=retry:30s, with a CLASS such as exit:3, or *", text)
	}
	rule.Class = text[:at]
	return rule, nil
}

// OnErrorText formats rules in the notation of ParseOnError.
func OnErrorText(rules []v1.OnError) string {
	var parts []string
	for _, r := range rules {
		part := r.Class + "=" + r.Action
		if r.DelayMs > 0 {
			part += ":" + MsText(r.DelayMs)
		}
		parts = append(parts, part)
	}
	return strings.Join(parts, " ")
}

// BackoffText formats b in the notation of ParseBackoff. It returns "" for nil.
func BackoffText(b *v1.Backoff) string {
	if b == nil {
		return ""
	}
	if b.Kind == v1.BackoffNone {
		return b.Kind
	}
	text := b.Kind + ":" + MsText(b.BaseMs)
	if b.CapMs > 0 {
		text += ":" + MsText(b.CapMs)
	}
	if b.Jitter > 0 {
		text += fmt.Sprintf(":%d%%", b.Jitter)
	}
	return text
}
