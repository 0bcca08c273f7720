package config

import (
	"testing"

	"github.com/spf13/cobra"
	"go.uber.org/goleak"

	"osqueue/cmd/osqueue/clitest"
	"osqueue/cmd/osqueue/serve"
	"osqueue/cmd/osqueue/view"
	"osqueue/cmd/osqueue/work"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var osq = clitest.Tree(func(g *view.Globals) []*cobra.Command {
	return Commands(g, Program{Name: "serve", Settings: serve.Settings}, Program{Name: "worker", Settings: work.Settings})
})

func TestScripts(t *testing.T) { osq.Scripts(t, nil) }
