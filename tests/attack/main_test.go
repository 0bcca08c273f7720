package attack

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/cluster"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.AtOnce(4) // the tests wait for leases and elections
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(cluster.Sharing{M: counting{m}}, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
