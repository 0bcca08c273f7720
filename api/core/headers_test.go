package core

import (
	"strings"
	"testing"
)

// A caller that repeats a write with its key has another trace; that is the same request.
func TestHeadersAreNoOtherRequest(t *testing.T) {
	for _, form := range []string{
		`{"payload":{"headers":1},"headers":{"traceparent":"T"}}`, `{"jobs":[{"type":"a","headers":{"traceparent":"T"}}]}`,
	} {
		once := string(withoutHeaders([]byte(strings.Replace(form, "T", "1", 1))))
		if again := string(withoutHeaders([]byte(strings.Replace(form, "T", "2", 1)))); once != again {
			t.Errorf("%s and %s", once, again)
		}
		if other := string(withoutHeaders([]byte(strings.NewReplacer(`"headers":1`, `"headers":2`, `"a"`, `"b"`).Replace(form)))); once == other {
			t.Errorf("%s for another body", once)
		}
	}
}
