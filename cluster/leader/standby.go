package leader

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"osqueue/cluster/flush"
	"osqueue/internal/sleep"
	"osqueue/storage"
)

// standbyKey is the object that a cluster writes every Config.StandbyInterval while it
// waits for the document of another cluster. The active leader reads it as often. So a
// leader that is cut off from the bucket knows whether another cluster may have taken the
// document over by now. That cluster would lack every write that the leader acknowledges
// from then on. With RivalRefuse the leader acknowledges only heartbeats until a write of
// the document succeeds. A takeover breaks no promise of a heartbeat, and the heartbeat
// lets a worker keep its job until it can report.
//
// All standbys write the same object; it does not matter which of them wrote last.
//
// A leader that is cut off before it has read the first announcement cannot know of the
// standby, and the standby cannot know whether the leader is dead. So the document says
// what the leader knows. While it knows of no standby, each document promises the next
// heartbeat within lone, and the leader refuses writes when that time and the broker timeout
// are over. When it has read an announcement, it writes the document without the promise. A
// standby waits for the promise, as for that of an idle heartbeat: a standby that the leader
// knows takes over after the broker timeout, any other one after StandbyWait. The promise is
// void if a node of the standby's own cluster has the name and the address of the document's
// broker, a loopback address only in the same network stack (campaign.go): then that broker's
// process has ended. So a cluster that has lost all
// disks does not wait. Below promiseLevel, and by a release without StandbyWait, nothing is
// promised, and a leader that does not know of the standby answers until MaxFlushLag is
// reached.

const standbyKey = "standby.json"

// The values of Config.RivalPolicy: what a leader does that cannot renew its heartbeat
// while a standby is known.
const (
	RivalRefuse   = "refuse"   // acknowledge nothing that a takeover would lose; the default
	RivalContinue = "continue" // acknowledge until MaxFlushLag is reached
)

// standbyKept is the number of intervals without a new announcement after which a standby
// no longer counts.
const standbyKept = 3

// announcer remembers when this cluster announced itself last. The candidate's goroutine
// uses it.
type announcer struct{ last time.Time }

// announce writes the announcement of this cluster, if one is due. It takes at most an
// eighth of the broker timeout: a longer pause between two reads of the document would
// restart the measurement of its silence (election.Watch).
func (l *Leader) announce(ctx context.Context) {
	a := &l.announcer
	if !a.last.IsZero() && time.Since(a.last) < l.cfg.StandbyInterval {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, l.cfg.BrokerTimeout/8)
	defer cancel()
	data, err := json.Marshal(Standby{
		Cluster: l.do.ClusterID(), Node: l.cfg.Name, Address: l.cfg.HTTPAdvertise,
		TimeoutMs: l.cfg.BrokerTimeout.Milliseconds(), At: l.cfg.Clock().UnixMilli(),
		Waits: true,
	})
	if err != nil {
		return // cannot happen: the fields are text and numbers
	}
	a.last = time.Now()
	var w storage.Write
	switch old, err := l.cfg.Bucket.Get(ctx, standbyKey); {
	case errors.Is(err, storage.ErrNotFound):
		w = l.cfg.Bucket.PutIfAbsent(ctx, standbyKey, data)
	case err != nil:
		w = storage.Write{Outcome: storage.Unknown, Err: err}
	default:
		w = l.cfg.Bucket.PutIfMatch(ctx, standbyKey, data, old.Version)
	}
	if w.Outcome == storage.Unknown { // after a conflict another standby has announced itself
		l.log.Debug("cannot announce this standby", "error", w.Err)
	}
}

// lone returns the promise of a document while the leader knows of no standby.
func (t *Term) lone() time.Duration {
	if t.standby.Load() != nil {
		return 0
	}
	return t.loneMax()
}

// loneMax returns the time, in addition to the broker timeout, for which a leader that knows
// of no standby answers after its last heartbeat; 0: there is no such bound, and the leader
// answers until MaxFlushLag is reached. A longer MaxFlushLag prevails.
func (t *Term) loneMax() time.Duration {
	c := &t.cfg
	if c.RivalPolicy == RivalContinue || c.MaxFlushLag == 0 || c.MaxFlushLag > c.StandbyWait || t.meta().Level < promiseLevel {
		return 0
	}
	return max(t.cfg.StandbyWait-t.cfg.BrokerTimeout, 0)
}

// watchStandby keeps r.standby up to date until ctx ends. A standby counts until it has
// announced nothing new for standbyKept intervals and this leader has renewed its own
// heartbeat since. A bucket that is unavailable, or looks empty, does not end a standby.
func (t *Term) watchStandby(ctx context.Context) {
	var version storage.Version
	var changed time.Time
	kept := standbyKept * t.cfg.StandbyInterval
	for {
		var s Standby
		o, err := t.readStandby(ctx)
		readable := err == nil || errors.Is(err, storage.ErrNotFound)
		switch {
		case !readable:
			t.log.Debug("cannot read the announcement of a standby", "error", err)
		case err == nil && o.Version != version:
			version = o.Version
			if json.Unmarshal(o.Data, &s) == nil && s.Cluster != t.do.ClusterID() {
				changed = time.Now()
				t.noteStandby(&s)
			}
		}
		if t.flusher.Renewed().After(changed.Add(kept)) {
			t.noteStandby(nil)
		}
		t.noteAlone(readable && t.standby.Load() == nil)
		if !sleep.For(ctx, StandbyLook(&t.cfg.Flush, t.cfg.StandbyInterval, t.cfg.BrokerTimeout)) {
			return
		}
	}
}

// StandbyLook returns the time between two reads of the announcement by the leader. With
// an idle heartbeat it is at most half of the broker timeout: a standby that does not
// know the promise in the document takes over one broker timeout after its first read.
func StandbyLook(f *flush.Config, interval, timeout time.Duration) time.Duration {
	if f.IdleHeartbeat > f.Heartbeat {
		return min(interval, timeout/2)
	}
	return interval
}

// noteAlone records whether the last read has shown that no standby is alive. If that
// ceases to hold, the leader writes the document at once, and then every Flush.Heartbeat.
func (t *Term) noteAlone(alone bool) {
	if t.alone.Swap(alone) && !alone && t.cfg.Flush.IdleHeartbeat > 0 {
		t.flusher.Rewrite()
	}
}

// idle reports whether the next heartbeat may come as late as Flush.IdleHeartbeat.
// Releases that know neither promises nor announcements refuse a document of
// promiseLevel.
func (t *Term) idle() bool {
	return t.alone.Load() && t.meta().Level >= promiseLevel
}

func (t *Term) readStandby(ctx context.Context) (storage.Object, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	return t.cfg.Bucket.Get(ctx, standbyKey)
}

func (t *Term) noteStandby(s *Standby) {
	switch before := t.standby.Swap(s); {
	case before == nil && s != nil:
		t.flusher.Rewrite() // without the promise of a leader that knows of no standby
		t.log.Info("a standby cluster announces itself", "node", s.Node, "address", s.Address, "policy", t.cfg.RivalPolicy)
	case before != nil && s == nil:
		t.log.Info("the standby cluster does not announce itself any more", "node", before.Node, "address", before.Address)
	}
}
