package v1_test

import (
	"strings"
	"testing"

	v1 "osqueue/client/api/v1"
)

func TestErrorLineAndGroup(t *testing.T) {
	const trace = "Traceback (most recent call last):\n  File \"x.py\", line 3, in dies\n    raise ValueError(1)\n"
	for text, want := range map[string][2]string{
		"":                          {"", ""},
		"card declined\nat x.go:3":  {"card declined", "card declined"},
		"order 17 of 3: 0xdeadBEEF": {"order 17 of 3: 0xdeadBEEF", "order # of #: #"},
		"no job 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11": {"no job 0190a8c2-5f0c-7b52-9f3a-3a7c1d1f6b11", "no job #"},
		"commit 3f9ab27c01 is not there":              {"commit 3f9ab27c01 is not there", "commit # is not there"},
		"defaced facade":                              {"defaced facade", "defaced facade"},
		trace + "ValueError: bad 1\r\n":               {"ValueError: bad 1", "ValueError: bad #"},
		trace + "\nDuring handling of the above exception, another exception occurred:\n\n" + trace + "KeyError: 'a'": {"KeyError: 'a'", "KeyError: 'a'"},
		"Traceback (most recent call last):\n  File":                                                                  {"Traceback (most recent call last):", "Traceback (most recent call last):"},
	} {
		if got := [2]string{v1.ErrorLine(text), v1.ErrorGroup(text)}; got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	const whole = "00-" + id + "-b7ad6b7169203331-01"
	if got := v1.TraceID(whole); got != id {
		t.Errorf("%q", got)
	}
	for _, text := range []string{
		"", "00", id, whole + "0", whole[1:], strings.ToUpper(whole), strings.Replace(whole, "0af", "0\x00f", 1), strings.Replace(whole, "-b7", "0b7", 1),
		strings.Replace(whole, id, strings.Repeat("0", 32), 1), strings.Replace(whole, "b7", "-7", 1),
	} {
		if got := v1.TraceID(text); got != "" {
			t.Errorf("%q is of the trace %q", text, got)
		}
	}
}

// FuzzTraceID: an id is 32 digits of its text, and only of a text that is not changed by writing
// it again.
func FuzzTraceID(f *testing.F) {
	f.Add("00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01")
	f.Add("00-00000000000000000000000000000000-00f067aa0ba902b7-01")
	f.Add("ff-4bf92f3577b34da6a3ce929d0e0e473é-0f067aa0ba902b7-01")
	f.Fuzz(func(t *testing.T, text string) {
		id := v1.TraceID(text)
		if id == "" {
			return
		}
		parts := strings.Split(text, "-")
		if len(parts) != 4 || parts[1] != id || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Fatalf("%q has the trace %q", text, id)
		}
	})
}
