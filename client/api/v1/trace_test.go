package v1

import (
	"strings"
	"testing"
)

func TestTraceID(t *testing.T) {
	const id = "0af7651916cd43dd8448eb211c80319c"
	const whole = "00-" + id + "-b7ad6b7169203331-01"
	if got := TraceID(whole); got != id {
		t.Errorf("%q", got)
	}
	for _, text := range []string{
		"", "00", id, whole + "0", whole[1:], strings.ToUpper(whole), strings.Replace(whole, "0af", "0\x00f", 1), strings.Replace(whole, "-b7", "0b7", 1),
		strings.Replace(whole, id, strings.Repeat("0", 32), 1), strings.Replace(whole, "b7", "-7", 1),
	} {
		if got := TraceID(text); got != "" {
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
		id := TraceID(text)
		if id == "" {
			return
		}
		parts := strings.Split(text, "-")
		if len(parts) != 4 || parts[1] != id || len(id) != 32 || strings.Trim(id, "0123456789abcdef") != "" {
			t.Fatalf("%q has the trace %q", text, id)
		}
	})
}
