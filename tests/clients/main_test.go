package clients

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/cluster"
)

func TestMain(m *testing.M) {
	storagetest.SetS3Credentials()
	storagetest.AtOnce(4) // the tests wait for leases and elections
	goleak.VerifyTestMain(cluster.Sharing{M: m}, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}
