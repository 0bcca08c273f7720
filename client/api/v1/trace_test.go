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
