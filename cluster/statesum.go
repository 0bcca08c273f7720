package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/host"
	"osqueue/internal/sleep"
)

// The nodes compare their states. The active leader puts a CheckState into the log every
// Config.StateCheck. Each node freezes its state at that entry, and the goroutine of
// sumStates computes the checksum (this file). The leader asks for the checksums and puts
// the one of a majority of the voters into the log (leader/statecheck.go). A node that has
// another one ends, and does not start again with that state.

// sumsKept bounds how many checksums a node remembers. Checks run one after the other, so
// there are more than a few only while a log is replayed.
const sumsKept = 16

// stateSums has the checksums of this node's state, and those that a majority agreed on.
// Safe for concurrent use.
type stateSums struct {
	poke chan struct{} // signals work for Node.sumStates; capacity 1

	mu      sync.Mutex
	life    int            // number of states that were replaced as a whole
	view    *fsm.View      // state whose checksum is to be computed; only the newest
	own     []fsm.StateSum // oldest first
	agreed  []fsm.StateSum // oldest first
	asked   time.Time      // time when the newest CheckState was applied, or the node started
	finding string         // of the newest check; "": the states are the same
	forked  bool           // a server had another state, and the objects that it wrote are to be replaced
}

func newStateSums() *stateSums {
	return &stateSums{poke: make(chan struct{}, 1), asked: time.Now()}
}

// applied processes an entry that the machine has just applied. It calls freeze if the
// checksum of the state is wanted. It runs under the replica's lock.
func (s *stateSums) applied(b *fsmpb.Batch, freeze func() *fsm.View) {
	fsm.AgreedSums(b, func(agreed fsm.StateSum, diverged []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.agreed = newest(append(s.agreed, agreed))
		s.finding = ""
		if len(diverged) > 0 {
			s.finding = fmt.Sprintf("the state of %q differed from that of the other nodes after log entry %s", diverged, agreed.LSN)
			s.forked = true
		}
		s.wake()
	})
	if fsm.AsksForSum(b) {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.view, s.asked = freeze(), time.Now()
		s.wake()
	}
}

func (s *stateSums) wake() { sleep.Wake(s.poke) }

func newest(sums []fsm.StateSum) []fsm.StateSum { return sums[max(len(sums)-sumsKept, 0):] }

// restored forgets the checksums of a state that was replaced as a whole.
func (s *stateSums) restored() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.view, s.own = nil, nil
	s.life++
}

// compute computes the checksum that is wanted, if any, and compares it with the one of
// the majority. It releases s.mu while it computes. The error is an fsm.ErrDiverged, and
// lsn the entry after which the states differ.
func (s *stateSums) compute() (lsn fsm.LSN, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if v, life := s.view, s.life; v != nil {
		s.view = nil
		s.mu.Unlock()
		sum := v.Sum()
		s.mu.Lock()
		if s.life == life {
			s.own = newest(append(s.own, sum))
		}
	}
	for _, own := range s.own {
		for _, agreed := range s.agreed {
			if err := own.Compare(agreed); err != nil {
				return own.LSN, err
			}
		}
	}
	return fsm.LSN{}, nil
}

// latest returns the newest checksum of this node's state; zero: none.
func (s *stateSums) latest() (sum fsm.StateSum) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.own) > 0 {
		sum = s.own[len(s.own)-1]
	}
	return sum
}

// status returns the newest state that a majority agreed on, and the finding of the
// newest check.
func (s *stateSums) status() (agreed fsm.LSN, finding string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.agreed) > 0 {
		agreed = s.agreed[len(s.agreed)-1].LSN
	}
	return agreed, s.finding
}

func (s *stateSums) find(finding string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.finding = finding
}

// due returns the time until the next check.
func (s *stateSums) due(interval time.Duration) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return interval - time.Since(s.asked)
}

// takeForked reports whether servers had another state since the last call.
func (s *stateSums) takeForked() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	forked := s.forked
	s.forked = false
	return forked
}

// sumStates computes the checksums of this node's state until the node is closed. It ends
// the node if the majority has another state.
func (n *Node) sumStates() {
	for {
		select {
		case <-n.sums.poke:
		case <-n.ctx.Done():
			return
		}
		if lsn, err := n.sums.compute(); err != nil {
			n.diverge(lsn, err)
			return
		}
	}
}

const (
	// divergedFile marks a data directory whose state must not be used any more.
	divergedFile = "diverged"
	// divergedWrite bounds how long a diverged node waits for the write of that file
	// before it ends.
	divergedWrite = 500 * time.Millisecond
)

// errForked means that this node has another state than the majority.
var errForked = errors.New("the state of this node differs from that of the majority")

// diverge ends this node, because its state after an entry is wrong. If the entry was in
// the log when the node started, the replay of the log produced the wrong state. Then
// diverge leaves no mark: the state on the disk is older than the entry, and another
// release may replay the log correctly.
func (n *Node) diverge(lsn fsm.LSN, why error) {
	n.sever()
	if lsn.Index <= n.replayed {
		err := fmt.Errorf("%w: %w; the log was replayed: if this node was upgraded, go back to the release before and report "+
			"this; otherwise, if the other nodes run, delete its data directory %q and start it again", errForked, why, n.cfg.DataDir)
		n.replica.fail(err)
		return
	}
	err := fmt.Errorf("%w: %w; %s", errForked, why, divergedAdvice(n.cfg.DataDir))
	if n.cfg.onDisk() {
		done := make(chan error, 1)
		go func() { done <- host.WriteFile(filepath.Join(n.cfg.DataDir, divergedFile), why.Error()+"\n") }()
		select {
		case failed := <-done:
			err = errors.Join(err, failed)
		case <-time.After(divergedWrite):
		}
	}
	n.replica.fail(err)
}

func divergedAdvice(dir string) string {
	return fmt.Sprintf("keep a copy of its data directory %q for a report, delete the directory, and start the node again: "+
		"it gets the state from the others", dir)
}

// onDisk reports whether the node has a data directory that outlives the process.
func (c *Config) onDisk() bool { return c.testEnv == nil && !c.Memory }

// checkNotDiverged returns an error if the data directory is marked as having a wrong
// state.
func (n *Node) checkNotDiverged() error {
	if !n.cfg.onDisk() {
		return nil
	}
	why, err := os.ReadFile(filepath.Join(n.cfg.DataDir, divergedFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return fmt.Errorf("look for a mark of a wrong state: %w", err)
	}
	return fmt.Errorf("this node stopped because its state differs from that of the majority (%.200s): %s", why, divergedAdvice(n.cfg.DataDir))
}
