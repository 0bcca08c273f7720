package v1_test

import (
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
