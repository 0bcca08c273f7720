package jobs

import (
	"strings"
	"testing"
)

func TestContainsFold(t *testing.T) {
	for _, c := range []struct {
		hay, text string
		want      bool
	}{
		{"Gateway Timeout", "gateway timeout", true},
		{"gateway", "GATE", true},
		{"agate", "gate", true},
		{"gat", "gate", false},
		{"", "g", false},
		{"aaaab", "aab", true},
		{"Ärger", "Ärger", true},
		{"Ärger", "ärger", false}, // ASCII only
	} {
		if got := containsFold(c.hay, c.text); got != c.want || containsFold([]byte(c.hay), c.text) != c.want {
			t.Errorf("%q in %q: %v", c.text, c.hay, got)
		}
	}
}

func TestContainsFoldAllocatesNothing(t *testing.T) {
	hay := []byte(strings.Repeat("payload ", 1000))
	if n := testing.AllocsPerRun(10, func() { containsFold(hay, "no such text") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
