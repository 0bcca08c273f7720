package e2e

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.AtOnce(4) // the tests wait for leases and elections
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
