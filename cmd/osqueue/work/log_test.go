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
	log.LogAttrs(t.Context(), slog.LevelInfo, "started", slog.Int("jobs", 3))
	log.With("worker", "w1").Warn("failed", "error", errors.New("refused"))
	log.Log(t.Context(), slog.LevelError+1, "lost")
	const want = `[INFO]  client: started: jobs=3
[WARN]  client: failed: worker=w1 error=refused
[ERROR] client: lost
`
	if got := out.String(); got != want {
		t.Errorf("the log is\n%s\nwant\n%s", got, want)
	}
}
