package leader

import (
	"context"
	"sync"

	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
)

// Reading the state of a deep queue takes as long as the broker timeout. So a standby reads it
// while it waits, and watches the document while it adopts. Neither shortens the
// measurement of the broker's silence: the takeover still needs the same version for the whole
// broker timeout, seen by reads that are less than Watch's longest pause apart.

// prepared is the state of a version of the document, which a goroutine reads. The candidate's
// goroutine uses it.
type prepared struct {
	version storage.Version // "": nothing was read
	stop    context.CancelFunc
	read    func() (*fsm.Machine, error) // waits for the goroutine; nil: dropped
	running sync.WaitGroup
}

// prepare begins to read the state of a document whose broker has been silent for half of
// the broker timeout, so that the candidate will probably adopt it. It does so once in a time as
// raft's leader: a standby of a broker with a slow heartbeat must not read every version.
// prepare drops the state of another version.
func (l *Leader) prepare(ctx context.Context, seen election.Observed, heard election.Silence) {
	p := &l.prepared
	if p.version != "" {
		if p.version != seen.Version {
			p.drop()
		}
		return
	}
	if seen.Doc == nil || seen.Doc.Header == nil || heard.Remaining() > heard.Timeout/2 {
		return
	}
	ctx, p.stop = context.WithCancel(ctx)
	p.version = seen.Version
	read := sync.OnceValues(func() (*fsm.Machine, error) { return archive.Machine(ctx, l.cfg.Bucket, seen.Doc) })
	p.read = read
	p.running.Go(func() { _, _ = read() }) // stateOf gets the results
}

// drop ends the read and forgets the state, but not that it was read.
func (p *prepared) drop() {
	if p.read != nil {
		p.stop()
		p.read = nil
	}
}

// end drops the state, waits for the end of the read, and allows another one.
func (p *prepared) end() {
	p.drop()
	p.running.Wait()
	p.version = ""
}

// stateOf returns the state of a document, the prepared one if there is one. The caller may
// change it.
func (l *Leader) stateOf(ctx context.Context, seen election.Observed) (*fsm.Machine, error) {
	if p := &l.prepared; p.read != nil && p.version == seen.Version {
		defer p.drop()
		if m, err := p.read(); err == nil {
			return m, nil
		}
	}
	return archive.Machine(ctx, l.cfg.Bucket, seen.Doc)
}

// adoptObserved is Adopt, and continues to measure for how long the document is unchanged. So
// the candidate need not wait for another broker timeout after an adoption that took long.
func (l *Leader) adoptObserved(ctx context.Context, term uint64, seen election.Observed) error {
	watching, stop := context.WithCancel(ctx)
	var wg sync.WaitGroup
	wg.Go(func() { l.observe(watching) })
	err := l.Adopt(ctx, term, seen)
	stop()
	wg.Wait()
	return err
}

// observeEarly measures for how long the document is unchanged while an empty cluster forms, and
// until a cluster that has adopted a document is registered in it. So a cluster that has lost all its
// disks need not wait for longer than the broker timeout, also if its leader changes meanwhile. Each
// node measures, because any may become the leader. The candidate calls stop before it uses l.watch.
func (l *Leader) observeEarly(ctx context.Context) (stop func()) {
	if m := l.meta(); m.Lineage != "" && m.Adopted == "" {
		return func() {}
	}
	ctx, cancel := context.WithTimeout(ctx, earlyTimeouts*l.cfg.BrokerTimeout)
	var wg sync.WaitGroup
	wg.Go(func() { l.observe(ctx) })
	return func() {
		cancel()
		wg.Wait()
	}
}

// earlyTimeouts bounds, in broker timeouts, how long a node that does not lead reads the document:
// a cluster that stands by for months must not have all its nodes read it.
const earlyTimeouts = 3

// observe reads the document for l.watch until ctx ends. The candidate's goroutine must not use
// l.watch meanwhile.
func (l *Leader) observe(ctx context.Context) {
	wait := l.cfg.BrokerTimeout
	for {
		got := l.readNow(ctx)
		switch {
		case ctx.Err() != nil: // the result proves nothing
		case got.err != nil:
			l.watch.Missed()
		default:
			wait = election.TimeoutOf(got.seen.Doc, l.cfg.BrokerTimeout)
			l.watch.Saw(got.seen, got.asked, wait/2)
		}
		if !sleep.For(ctx, wait/standbyPolls) {
			return
		}
	}
}
