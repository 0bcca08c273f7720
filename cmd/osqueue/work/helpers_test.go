package work

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/internal/sandbox"
)

func TestMain(m *testing.M) {
	sandbox.RunHelper()
	goleak.VerifyTestMain(m)
}

func newTestCommand(t *testing.T, servers ...string) *clitest.Command {
	t.Helper()
	return clitest.NewCommand(t, Commands, servers...)
}

func osqTest(t *testing.T, q *clitest.Fake, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, Commands, q, stdin, args...)
}
