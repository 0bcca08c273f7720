package leader

import (
	"context"
	"errors"
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
	DocumentForm  string
	BaseLSN       fsm.LSN
	ArchiveLSN    fsm.LSN
	LogBytes      int64
}

// Status returns the state of the term.
func (r *Term) Status() Status {
	s := Status{Lag: r.lag(), FlushInterval: r.flushInterval(), FlushError: r.flusher.Failing()}
	if e := r.damage.Load(); e != nil {
		s.ArchiveError = e.Error()
	}
	if standby := r.standby.Load(); standby != nil {
		s.Standby = standby.String()
	}
	if refused := r.gate.refusal(); refused != nil {
		s.Refusing = refused.Error()
	}
	if d := r.written.Load(); d != nil {
		s.DocumentBytes, s.DocumentForm = d.bytes, d.form
		s.BaseLSN, s.ArchiveLSN, s.LogBytes = d.base, d.archive, d.log
	}
	return s
}

// Over returns a channel that is closed when the term has ended.
func (r *Term) Over() <-chan struct{} { return r.over }

// Now returns the leader's clock, in ms.
func (r *Term) Now() int64 { return r.clock.now() }

// Stop ends the term so that the queue's time can be set back. A new one begins when the
// document is acquired again.
func (r *Term) Stop() { r.stop() }

// Refusal returns why the term takes no writes except reports now: an ErrFlushLag, or nil.
func (r *Term) Refusal() error { return r.gate.refusal() }

// Failing returns why the last flush failed, or "".
func (r *Term) Failing() string { return r.flusher.Failing() }

// Flushed returns the LSN of the newest state in the bucket.
func (r *Term) Flushed() fsm.LSN { return r.flusher.Flushed() }

// Due reports whether the machine's next deadline is due at now, in ms. The caller holds
// the lock that guards m.
func (r *Term) Due(m *fsm.Machine, now int64) bool {
	at, ok := m.NextDeadline(r.unreadable)
	return ok && at <= now
}

// WaitFlushed returns nil once lsn is in the bucket, and ErrNotLeader when the term ends.
// While the leader knows that the state cannot be restored from the document, the error is
// an ErrArchive, also for the zero LSN.
func (r *Term) WaitFlushed(ctx context.Context, lsn fsm.LSN) error {
	if err := r.damaged(); err != nil {
		return err
	}
	err := r.flusher.WaitFlushed(ctx, lsn)
	if err == nil {
		err = r.damaged()
	}
	if errors.Is(err, flush.ErrOver) {
		return ErrNotLeader
	}
	return err
}
