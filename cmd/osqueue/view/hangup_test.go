package view

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/hashicorp/go-hclog"
)

type lineWriter chan string

func (w lineWriter) Write(b []byte) (int, error) {
	w <- string(b)
	return len(b), nil
}

// SIGHUP ends no process that ignores it, and leaves a line in its log.
func TestIgnoreHangup(t *testing.T) {
	lines := make(lineWriter, 1)
	stop := IgnoreHangup(hclog.New(&hclog.LoggerOptions{Output: lines}))
	defer stop()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case line := <-lines:
		if !strings.Contains(line, "SIGHUP is ignored") {
			t.Errorf("the log has %q", line)
		}
	case <-time.After(10 * time.Second):
		t.Error("no line in the log")
	}
}
