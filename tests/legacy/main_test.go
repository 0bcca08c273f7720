package legacy

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
)

// TestMain allows a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	Main()
	storagetest.AtOnce(6) // the tests wait for leases and elections
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
