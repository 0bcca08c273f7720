package units

import (
	"fmt"
	"strings"
	"time"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
)

// UniqueHelp is the notation of a unique key, for the help of commands.
const UniqueHelp = `With --unique KEY[:SCOPE] no job is added while another job of the type holds KEY; the
command prints the id of that job. ` + UniqueForm

// UniqueForm is the notation of the scope alone.
const UniqueForm = `SCOPE is how long a job holds its key:
waiting (until it is claimed), active (until it has ended; the default) or
period:LENGTH, as in order-7:period:1h. If the key itself ends like a scope, add a
scope.`

// parseUnique parses KEY, KEY:waiting, KEY:active or KEY:period:LENGTH. Keys may contain
// colons.
func parseUnique(text string) (client.Unique, error) {
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

// UniqueText formats a job's key in the notation of parseUnique. It returns "" if the
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

// Unique is a flag whose value is a unique key.
type Unique struct {
	Text  string // as it was given
	Value client.Unique
}

// String implements pflag.Value.
func (f *Unique) String() string { return f.Text }

// Set implements pflag.Value.
func (f *Unique) Set(text string) error {
	u, err := parseUnique(text)
	f.Text, f.Value = text, u
	return err
}

// Type implements pflag.Value.
func (*Unique) Type() string { return "key" }
