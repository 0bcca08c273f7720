package cluster

import (
	"net"
	"strings"
	"testing"
	"time"

	"osqueue/cluster/raftlog"
)

// again starts a stopped member at its old address, with the given data directory.
func (l *lab) again(old *member, dir string, adjust func(*Config)) *member {
	l.t.Helper()
	listener, err := net.Listen("tcp", old.cfg.HTTPAdvertise)
	if err != nil {
		l.t.Fatal(err)
	}
	peers, at := old.cfg.Peers, 0
	for i, p := range peers {
		if p.Name == old.cfg.Name {
			at = i
		}
	}
	return l.open(peers, at, listener, func(c *Config) {
		c.DataDir = dir
		c.RaftAddr = string(old.net.LocalAddr())
		if adjust != nil {
			adjust(c)
		}
	})
}

// A disk that hangs during the start ends the start, as it ends a running node.
func TestTheStartEndsWhenTheDiskHangs(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	n := l.leader(l.start("n", 1, nil)...)
	n.stop()
	release, hangs := make(chan struct{}), make(chan struct{}, 10)
	cfg := n.cfg
	cfg.RaftAddr = "127.0.0.1:0"
	cfg.LogStallLimit = time.Second
	cfg.BeforeLogWrite = func() {
		hangs <- struct{}{}
		<-release
	}
	defer func() {
		close(release)
		l.eventually("the end of the node, which unlocks the log", func() bool {
			d, err := raftlog.OpenDir(cfg.DataDir, raftlog.Options{})
			return err == nil && d.Close() == nil
		})
	}()
	_, err := Open(cfg)
	if err == nil || !strings.Contains(err.Error(), "has not answered") {
		t.Fatalf("Open returned %v", err)
	}
	if len(hangs) == 0 {
		t.Fatal("no write hung")
	}
}
