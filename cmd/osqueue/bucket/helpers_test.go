package bucket

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// offlineRun runs a command line that asks no cluster.
func offlineRun(t *testing.T, args ...string) clitest.Result {
	t.Helper()
	return clitest.NewCommand(t, Commands, "127.0.0.1:1").Run(args...)
}
