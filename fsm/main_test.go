package fsm_test

import (
	"flag"
	"os"
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

// The property tests take rapid's own flags: -rapid.checks and -rapid.steps
// make them as deep as there is time for.
func TestMain(m *testing.M) {
	_ = flag.Set("rapid.checks", "200") // a flag on the command line wins
	_ = flag.Set("rapid.steps", "60")
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(400) // the property tests leave much garbage and little else: half of their time went into it
	}
	goleak.VerifyTestMain(m)
}
