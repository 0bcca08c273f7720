package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/cluster/leader"
	"osqueue/internal/storagetest"
	"osqueue/internal/storagetest/fault"
	"osqueue/internal/storagetest/script"
	"osqueue/storage/document"
)

// rivals is a cluster a of one node, whose way to the bucket can be cut, and clients that write to
// it and read from it all the time.
type rivals struct {
	*simWorld
	a     *simCluster
	path  *fault.Bucket
	stall atomic.Int64 // how long the next write of a's disk takes, ns

	mu              sync.Mutex
	answered, read  time.Time // the last answer to a write and to a read
	late            error     // of the last write whose outcome is not known
	stopped, ending chan struct{}
}

// rivalTimeout is the broker timeout of clusters that are faster than a.
const rivalTimeout = 2 * time.Second

func quick(c *Config) {
	c.BrokerTimeout, c.Flush.Heartbeat = rivalTimeout, rivalTimeout/4
	c.StandbyInterval, c.StandbyRetry = time.Second, 500*time.Millisecond
}

// alike has the timeouts of a.
func alike(c *Config) { c.StandbyInterval, c.StandbyRetry = time.Second, 500*time.Millisecond }

func rivalScene(t *testing.T, act func(s *rivals) error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		w := newSimWorld(1, storagetest.NewCounts())
		s := &rivals{simWorld: w, path: fault.New(w.record, 1), ending: make(chan struct{}), stopped: make(chan struct{})}
		s.a = newSimCluster(w, "a", 1, s.path)
		s.a.tune = func(c *Config) {
			alike(c)
			c.BeforeLogWrite = func() { time.Sleep(time.Duration(s.stall.Swap(0))) }
		}
		s.a.startAll()
		err := simAwait(calmWait, s.a.whole)
		go s.clients()
		if err == nil {
			err = act(s)
		}
		close(s.ending)
		<-s.stopped
		s.a.end()
		if err := s.path.Close(); err != nil {
			t.Error(err)
		}
		if err != nil {
			t.Errorf("%v; %v", err, w.failed())
		}
	})
}

func (s *rivals) clients() {
	defer close(s.stopped)
	for i := 0; ; i++ {
		select {
		case <-s.ending:
			return
		case <-time.After(20 * time.Millisecond):
		}
		lead := s.a.active()
		if lead == nil {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		_, _, wrote := lead.Propose(ctx, script.Enqueue(fmt.Sprint("written", i)))
		at := time.Now()
		read := lead.Linearize(ctx)
		cancel()
		s.mu.Lock()
		if wrote == nil {
			s.answered = at
		}
		if errors.Is(wrote, leader.ErrUnknown) {
			s.late = wrote
		}
		if read == nil {
			s.read = time.Now()
		}
		s.mu.Unlock()
	}
}

// standby starts another cluster. If known, it waits until a knows it.
func (s *rivals) standby(name string, tune func(*Config), known int) (*simCluster, error) {
	c := newSimCluster(s.simWorld, name, 1, s.record)
	c.tune = tune
	c.startAll()
	if known == 0 {
		return c, nil
	}
	return c, simAwait(time.Minute, func() string {
		if n := len(s.document().Fence().Standbys); n != known {
			return fmt.Sprintf("the document names %d standbys, want %d", n, known)
		}
		return ""
	})
}

// takenOver waits until a cluster takes the document over, and checks that this takes least, and
// that a answers nothing after that.
func (s *rivals) takenOver(least, most time.Duration, by ...*simCluster) error {
	cut := time.Now()
	var took time.Time
	for took.IsZero() {
		for _, c := range by {
			if c.active() != nil {
				took = time.Now()
			}
		}
		if time.Since(cut) > most {
			return fmt.Errorf("no standby has taken over after %v", most)
		}
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Second)
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case took.Sub(cut) < least:
		return fmt.Errorf("taken over after %v, want at least %v", took.Sub(cut), least)
	case s.answered.After(took):
		return fmt.Errorf("a has answered a write %v after the takeover", s.answered.Sub(took))
	case s.read.After(took):
		return fmt.Errorf("a has answered a read %v after the takeover", s.read.Sub(took))
	case least > 0 && s.answered.Before(cut.Add(least/2)):
		return fmt.Errorf("a has stopped answering %v before the takeover", took.Sub(s.answered))
	}
	return nil
}

// document returns the document in the bucket; an empty one if there is none.
func (s *rivals) document() *document.File {
	o, err := s.record.Get(context.Background(), DocumentKey)
	if err != nil {
		return &document.File{}
	}
	doc, err := document.Decode(o.Data)
	if err != nil {
		s.failf("the document: %v", err)
		return &document.File{}
	}
	return doc
}

func (s *rivals) cut() { s.path.Inject(fault.Rule{Kind: fault.LoseRequest}) }

// A standby that the leader knows takes over after the leader's broker timeout, not after its own.
func TestSimKnownStandbyWithAShorterTimeout(t *testing.T) {
	rivalScene(t, func(s *rivals) error {
		b, err := s.standby("b", quick, 1)
		defer b.end()
		if err != nil {
			return err
		}
		s.cut()
		return s.takenOver(7*time.Second, 15*time.Second, b)
	})
}

// A standby that the leader cannot know waits for the outage that the document says.
func TestSimUnknownStandbyWithAShorterTimeout(t *testing.T) {
	rivalScene(t, func(s *rivals) error {
		s.cut()
		b, _ := s.standby("b", quick, 0)
		defer b.end()
		return s.takenOver(17*time.Second, 25*time.Second, b)
	})
}

// The leader knows two standbys with different timeouts.
func TestSimTwoStandbys(t *testing.T) {
	rivalScene(t, func(s *rivals) error {
		b, err := s.standby("b", quick, 1)
		defer b.end()
		if err != nil {
			return err
		}
		c, err := s.standby("c", alike, 2)
		defer c.end()
		if err != nil {
			return err
		}
		time.Sleep(5 * time.Second) // further announcements hide nothing
		if n := len(s.document().Fence().Standbys); n != 2 {
			return fmt.Errorf("the document names %d standbys", n)
		}
		s.cut()
		return s.takenOver(7*time.Second, 15*time.Second, b, c)
	})
}

// A write that is admitted in time, and committed after the takeover because the disk stalls, is
// not answered as if it counted.
func TestSimSlowLeaderAnswersNothingLate(t *testing.T) {
	rivalScene(t, func(s *rivals) error {
		b, err := s.standby("b", quick, 1)
		defer b.end()
		if err != nil {
			return err
		}
		s.cut()
		began := time.Now()
		for s.a.active() != nil && time.Since(began) < 7*time.Second {
			time.Sleep(time.Millisecond)
		}
		go func() { // the disk stalls as soon as there is a write, shortly before a would refuse it
			for time.Since(began) < 9*time.Second {
				s.stall.Store(int64(4 * time.Second))
				time.Sleep(4 * time.Second)
			}
		}()
		if err := s.takenOver(0, 15*time.Second, b); err != nil {
			return err
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.late == nil {
			return errors.New("no write was committed too late")
		}
		return nil
	})
}

// A standby that is gone is named no more, and the leader then answers until the outage.
func TestSimStandbyThatIsGone(t *testing.T) {
	rivalScene(t, func(s *rivals) error {
		b, err := s.standby("b", quick, 1)
		b.end()
		if err != nil {
			return err
		}
		return simAwait(20*time.Second, simWhile("the document still names the standby", func() bool { return len(s.document().Fence().Standbys) > 0 }))
	})
}
