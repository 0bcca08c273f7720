package units

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

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

// Backoff is a flag whose value is a backoff.
type Backoff struct {
	text  string
	Value *client.Backoff
}

// String implements pflag.Value.
func (f *Backoff) String() string { return f.text }

// Set implements pflag.Value.
func (f *Backoff) Set(text string) error {
	b, err := ParseBackoff(text)
	f.text, f.Value = text, &b
	return err
}

// Type implements pflag.Value.
func (*Backoff) Type() string { return "backoff" }
