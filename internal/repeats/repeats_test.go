package repeats

import (
	"fmt"
	"testing"
)

// The number of remembered lines is bounded.
func TestRepeatsAreBounded(t *testing.T) {
	var f Filter
	for i := range 10 * keys {
		f.Due(fmt.Sprint(i))
	}
	if len(f.seen) > keys {
		t.Errorf("%d lines are remembered", len(f.seen))
	}
}
