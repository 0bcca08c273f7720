package apply

import (
	"testing"

	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var osq = clitest.Tree(Commands)

func TestScripts(t *testing.T) { osq.Scripts(t, nil) }
