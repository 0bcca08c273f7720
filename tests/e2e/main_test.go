package e2e

import (
	"errors"
	"testing"

	"go.uber.org/goleak"

	"osqueue/internal/storagetest"
	"osqueue/tests/cluster"
)

// TestMain ignores a goroutine that a library of the GCS client starts on import.
func TestMain(m *testing.M) {
	storagetest.AtOnce(4) // the tests wait for leases and elections
	storagetest.SetS3Credentials()
	goleak.VerifyTestMain(cluster.Sharing{M: m}, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// follows waits until n knows a leader.
func follows(c *cluster.Cluster, n *cluster.Node) {
	c.Eventually(longPatience, n.Name+" to know a leader", func() error {
		s, err := n.Status()
		if err == nil && s.Leader == nil {
			err = errors.New("it knows none")
		}
		return err
	})
}
