package fsm_test

import (
	"flag"
	"testing"

	"go.uber.org/goleak"
)

// The property tests take rapid's own flags: -rapid.checks and -rapid.steps
// make them as deep as there is time for.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "200") // a flag on the command line wins
	_ = flag.Set("rapid.steps", "60")
	goleak.VerifyTestMain(m)
}
