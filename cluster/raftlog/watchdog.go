package raftlog

import (
	"fmt"
	"time"

	"osqueue/cluster/transport"
)

// access is one access to the disk. The goroutines of raft's replication read at the same time.
type access struct {
	what   string
	rounds int // that the watchdog still waits for it
}

// fatalRounds is the number of rounds in a row, after the first one, in which the watchdog must see
// the same access under way before it is fatal.
const fatalRounds = 10

// Watch runs one access to the disk, to which it reads or writes that many bytes. The access is fatal
// if it hangs. Watch is safe for concurrent use.
func (l *Log) Watch(what string, bytes int, fn func() error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.enterLocked(what, bytes)
	defer delete(l.running, a)
	return l.unlocked(fn)
}

// enterLocked begins an access, which is in running until it ends.
func (l *Log) enterLocked(what string, bytes int) *access {
	a := &access{what: what, rounds: 1 + fatalRounds*(1+bytes/transport.AppendMaxBytes)}
	l.running[a] = struct{}{}
	return a
}

// watchdog checks the accesses until stop is closed, or until one of them hangs. It counts its own rounds instead of
// reading a clock, so that a process that was stopped for a while (SIGSTOP, a suspended machine)
// does not take that for a slow disk.
func (l *Log) watchdog(stop <-chan struct{}) {
	tick := time.NewTicker(max(l.opts.Stall/fatalRounds, time.Millisecond))
	defer tick.Stop()
	for {
		select {
		case <-stop:
			return
		case <-tick.C:
		}
		if access := l.hanging(); access != "" {
			l.opts.Fatal(fmt.Errorf("the disk of the raft log has not answered for %v: %s", l.opts.Stall, access))
			return
		}
	}
}

// hanging counts one round, and returns what an access wants to do that has taken too long, or "".
func (l *Log) hanging() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for a := range l.running {
		if a.rounds--; a.rounds <= 0 {
			return a.what
		}
	}
	return ""
}
