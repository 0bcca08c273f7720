package queue

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var osq = clitest.Tree(Commands)
