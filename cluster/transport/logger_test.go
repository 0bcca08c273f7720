package transport

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"
	"github.com/hashicorp/raft"
)

// A dead peer causes two lines at first and as many a minute later, whatever raft logs
// about it.
func TestDeadPeerInTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		log := NewLogger(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info})).Named("raft")
		peer := raft.Server{ID: "n2~1", Address: "a:1"}
		for range 10 * 60 * 3 { // ten minutes
			log.Error("failed to heartbeat to", "peer", peer.Address, "error", errors.New("connection refused"))
			log.Error("failed to appendEntries to", "peer", peer, "error", errors.New("connection refused"))
			log.Warn("failed to contact", "server-id", peer.ID, "time", time.Second)
			time.Sleep(time.Second / 3)
		}
		lines := strings.Split(strings.TrimSpace(out.String()), "\n")
		if len(lines) != 20 {
			t.Errorf("%d lines:\n%s", len(lines), out.String())
		}
		if last := lines[len(lines)-1]; !strings.Contains(last, " similar lines since the last one") {
			t.Errorf("the last line is %s", last)
		}
		out.Reset()
		log.Error("failed to appendEntries to", "peer", raft.Server{ID: "n3~1", Address: "b:1"}, "error", errors.New("connection refused"))
		log.Error("failed to take snapshot", "error", errors.New("full"))
		if n := strings.Count(out.String(), "\n"); n != 2 {
			t.Errorf("of another peer and another fault it logs\n%s", out.String())
		}
	})
}

func TestOrderlyStopIsNoError(t *testing.T) {
	var out bytes.Buffer
	log := NewLogger(hclog.New(&hclog.LoggerOptions{Output: &out, Level: hclog.Info}))
	log.Error("failed to decode incoming command", "error", fmt.Errorf("read: %w", raft.ErrTransportShutdown))
	if out.Len() > 0 {
		t.Errorf("it logs %s", out.String())
	}
	log.Error("failed to decode incoming command", "error", errors.New("unknown rpc type 9"))
	if out.Len() == 0 {
		t.Error("a request that cannot be read is not logged")
	}
}
