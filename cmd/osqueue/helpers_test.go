package main

import (
	"testing"

	"osqueue/cmd/osqueue/clitest"
)

func newTestCommand(t *testing.T, servers ...string) *clitest.Command {
	t.Helper()
	return clitest.NewCommand(t, commands, servers...)
}

func osqTest(t *testing.T, q *clitest.Fake, stdin string, args ...string) clitest.Result {
	t.Helper()
	return clitest.Run(t, commands, q, stdin, args...)
}
