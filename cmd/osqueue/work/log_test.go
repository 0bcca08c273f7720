package work

import (
	"bytes"
	"errors"
	"log/slog"
	"testing"

	"github.com/hashicorp/go-hclog"
)

func TestRecordsReachTheLogger(t *testing.T) {
	var out bytes.Buffer
	log := sdkLogger(hclog.New(&hclog.LoggerOptions{Name: "client", Output: &out, Level: hclog.Info, DisableTime: true}))
	log.Debug("hidden")
	log.LogAttrs(t.Context(), slog.LevelInfo, "started", slog.Int("jobs", 3), slog.Attr{})
	log.With("worker", "w1").WithGroup("call").Warn("failed", "error", errors.New("refused"), slog.Group("server", "name", "n1"))
	log.WithGroup("").Log(t.Context(), slog.LevelError+1, "lost", slog.Group("", "job", "j1"))
	const want = `[INFO]  client: started: jobs=3
[WARN]  client: failed: worker=w1 call.error=refused call.server.name=n1
[ERROR] client: lost: job=j1
`
	if got := out.String(); got != want {
		t.Errorf("the log is\n%s\nwant\n%s", got, want)
	}
}
