package leader

import (
	"context"
	"errors"
	"fmt"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
)

// Status describes a term for cluster.Status, which describes the fields.
type Status struct {
	Lag           time.Duration
	FlushInterval time.Duration
	FlushError    string
	ArchiveError  string
	Standby       string
	Refusing      string
	DocumentBytes int
	DocumentView  bool
	CheckpointLSN fsm.LSN
	ArchiveLSN    fsm.LSN
	LogBytes      int64
}

// slowFlush is the time after which the status mentions a write that has not ended.
const slowFlush = 2 * time.Second

// flushError returns why the state does not reach the bucket; "" if it does.
func (t *Term) flushError() string {
	since, reason := t.flusher.Stalled()
	if reason == "" && !since.IsZero() && time.Since(since) > slowFlush {
		return fmt.Sprintf("a write of the bucket has not ended for %v", time.Since(since).Round(time.Second))
	}
	return reason
}

// Status returns the state of the term.
func (t *Term) Status() Status {
	s := Status{Lag: t.lag(), FlushInterval: t.flushInterval(t.cfg.Flush.Interval), FlushError: t.flushError()}
	if e := t.damage.Load(); e != nil {
		s.ArchiveError = e.Error()
	}
	s.Standby = t.standbys.text()
	if refused := t.gate.refusal(); refused != nil {
		s.Refusing = refused.Error()
	}
	if d := t.written.Load(); d != nil {
		s.DocumentBytes, s.DocumentView = d.bytes, d.viewed
		s.CheckpointLSN, s.ArchiveLSN, s.LogBytes = d.checkpoint, d.archive, d.log
	}
	return s
}

// Due reports whether the machine's next deadline is due at now, in ms. The caller holds
// the lock that guards m.
func (t *Term) Due(m *fsm.Machine, now int64) bool {
	at, ok := m.NextDeadline(t.unreadable)
	return ok && at <= now
}

// WaitFlushed returns nil once lsn is in the bucket, and ErrNotLeader when the term ends.
// While the leader knows that the state cannot be restored from the document, the error is
// an ErrArchive, also for the zero LSN.
func (t *Term) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	if err := t.damaged(); err != nil {
		return err
	}
	err := t.flusher.WaitFlushed(ctx, lsn)
	if err == nil {
		err = t.damaged()
	}
	if errors.Is(err, flush.ErrOver) {
		return ErrNotLeader
	}
	return err
}
