package flush

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"osqueue/fsm"
)

// fork makes a minority continue from an old state with entries in the old term that the
// majority never received. The minority then replaces the whole cluster.
func (c *ensemble) fork(at *fsm.View, term uint64, entries int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	var data bytes.Buffer
	if err := at.Encode(&data); err != nil {
		c.Fatal(err)
	}
	m, err := fsm.Decode(&data)
	if err != nil {
		c.Fatal(err)
	}
	current := c.term
	c.m, c.view, c.entries, c.kept, c.term = m, m.View(), nil, fsm.LSN{}, term
	for _, mb := range c.members {
		mb.applied = 0
		mb.unflushed = NewUnflushedLog(c.memory)
		mb.unflushed.Reset(at.LSN())
	}
	c.lock.Unlock()
	for range entries {
		c.commit(c.load.enqueue(now()))
	}
	c.lock.Lock()
	c.term = current + 1
}

// TestRecoveryFromAMinority loses a majority with its committed and flushed entries, and
// recovers the cluster from a node that had other entries at these positions, and even more
// of them. Confirmed entries stay.
func TestRecoveryFromAMinority(t *testing.T) {
	for _, viewed := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			o := newOutage(t)
			if viewed {
				o.cfg.ViewMax = 1 << 20
			}
			behind, term := o.frozen(o.members[0]), o.term
			o.leader.stop(false)
			o.elect()
			var err error
			if o.leader, err = o.campaign(t.Context(), o.members[1]); err != nil {
				t.Fatal(err)
			}
			for range 5 {
				o.leader.change(2)
				time.Sleep(time.Second)
			}
			o.confirm(o.flushed(time.Minute))
			o.leader.stop(false)
			o.waits.Wait()

			o.fork(behind, term, 60)
			time.Sleep(brokerTimeout + time.Second) // the document could belong to a live copy of the cluster
			if o.leader, err = o.campaign(t.Context(), o.members[2]); err != nil {
				t.Fatal(err)
			}
			o.leader.change(3)
			o.confirm(o.flushed(time.Minute))
			o.end()
		})
	}
}
