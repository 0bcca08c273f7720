package worker

import (
	"flag"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// TestMain skips the examples if OSQUEUE_EXAMPLE_SERVERS is unset: each needs an empty cluster.
// tests/e2e runs them.
func TestMain(m *testing.M) {
	if os.Getenv("OSQUEUE_EXAMPLE_SERVERS") == "" {
		if err := flag.Set("test.skip", "^Example"); err != nil {
			panic(err)
		}
	}
	goleak.VerifyTestMain(m)
}

// check ends the test if err is not nil.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
