package leader

import (
	"context"
	"fmt"
	"sync"
	"time"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
	"osqueue/internal/sleep"
	"osqueue/storage/document"
)

// beginTerm begins a leader term: it registers the broker through the log, which extends
// all leases, and opens the write path. run has to be called next.
func (l *Leader) beginTerm(
	ctx context.Context, term uint64, fence *election.Fence, named []string, first *document.Content, clock *leaderClock,
) (*Term, error) {
	r := &Term{
		base:    l.base,
		term:    term,
		clock:   clock,
		fence:   fence,
		log:     l.log.Named("leaderTerm"),
		over:    make(chan struct{}),
		earlier: make(chan struct{}, 1),
		doubted: make(chan struct{}, 1),
	}
	r.began = func() {
		l.current.Store(r)
		l.setFence(FenceActive, "")
	}
	r.ended = func() { l.current.CompareAndSwap(r, nil) }
	r.first = l.settings.Load()
	if err := r.register(ctx, l.firstLevel(ctx)...); err != nil {
		return nil, err
	}
	inherited := l.meta() // earlier leaders have announced this, and not the end
	r.gate.announced, r.gate.unresolved = fsm.Announces(inherited, fsm.AnnounceBucketAway), fsm.Announces(inherited, fsm.AnnounceWritesRefused)
	r.unhealed = fsm.Announces(inherited, fsm.AnnounceBucketDamaged)
	r.proposals = r.newProposer()
	r.standbys = &standbys{base: l.base, log: r.log, named: named}
	r.builder = flush.NewDocumentBuilder(l.cfg.Flush, l.cfg.Bucket, fence.Lineage(), first, l.do.Unflushed, l.do.Freeze, r.log)
	r.flusher = flush.New(l.cfg.Flush, fence, r.builder, flush.Effects{
		LSN:      l.lsn,
		NowMs:    r.heartbeatMs,
		Interval: l.flushInterval,
		Fence:    r.standbys.announcement,
		Edited:   r.takeEdit,
		Wrote:    r.wrote,
	}, r.log)
	r.standbys.flusher = r.flusher
	return r, nil
}

// run answers writes until the leader term ends. It returns nil when ctx ended it,
// and else why the document was lost.
func (t *Term) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { t.clock.watch(ctx) })
	wg.Go(func() { t.passTime(ctx) })
	wg.Go(func() { t.collect(ctx) })
	wg.Go(func() { t.deleteArtefacts(ctx) })
	wg.Go(func() { t.keepLevel(ctx) })
	wg.Go(func() { t.audit(ctx) })
	wg.Go(func() { t.checkStates(ctx) })
	wg.Go(func() { t.standbys.watch(ctx) })
	if t.do.Duty != nil {
		wg.Go(func() { t.do.Duty(ctx) })
	}
	t.began()
	if t.settings.Load() != t.first { // SetSettings has not seen this term
		wg.Go(func() { _ = t.register(ctx) }) // an error ends the term
	}
	t.flusher.Changed()
	t.log.Info("this node is the active leader", "term", t.term, "epoch", t.fence.Epoch())

	err := t.flusher.Run(ctx)
	if err != nil {
		t.lost.Store(true)
	}
	t.ended()
	cancel()
	close(t.over)
	wg.Wait()
	defer t.builder.Close()
	defer t.flusher.Close()
	if err != nil {
		t.proposals.Close()
		return err
	}
	t.finish()
	return nil
}

// finish ends the leader term in order: it commits the accepted proposals and flushes the
// state, as far as raft and the bucket answer within finalFlushTimeout.
func (t *Term) finish() {
	ctx, cancel := context.WithTimeout(context.Background(), finalFlushTimeout)
	defer cancel()
	if !t.do.Leads() {
		t.proposals.Close()
		return
	}
	if err := t.proposals.Drain(ctx); err != nil {
		t.log.Warn("some writes were still in progress at the end of the term", "error", err)
	}
	if err := t.flusher.Final(ctx); err != nil {
		t.log.Warn("the last state was not flushed; the raft log has it", "error", err)
	}
}

// finalFlushTimeout bounds how long a graceful stop waits for the bucket before it hands
// leadership over. An outage of the bucket must not keep the others from leading.
const finalFlushTimeout = time.Second

// changed is called for every applied entry, under the replica's lock. It signals the
// flusher, and passTime if the next deadline moved nearer. idle marks an entry that needs
// no flush of its own.
func (t *Term) changed(m *fsm.Machine, idle bool) {
	if !idle { // the next heartbeat of the document has it
		t.flusher.Changed()
	}
	if at, ok := m.NextDeadline(t.unreadable); ok && at < t.deadline.Load() {
		sleep.Wake(t.earlier)
	}
}

// rescanInterval is the time between two rescans for available jobs whose wake-up got
// lost.
const rescanInterval = 250 * time.Millisecond

// retryInterval is the pause after an entry that lets time pass could not be proposed.
const retryInterval = time.Second

// passTime lets time pass on an idle cluster: it proposes an entry when the machine's
// next deadline is due. It also rescans for lost wake-ups, and watches the bucket and the
// clocks, several times a second. It runs until ctx ends.
func (t *Term) passTime(ctx context.Context) {
	rescan := time.NewTicker(rescanInterval)
	defer rescan.Stop()
	crons := &fires{term: t}
	for {
		due, stop := t.nextDeadline()
		if t.gate.refusal() != nil {
			due = nil // no worker can report now, so no lease may expire
		}
		select {
		case <-ctx.Done():
			stop()
			return
		case <-due:
			if err := t.pass(ctx, crons); err != nil && ctx.Err() == nil {
				t.log.Debug("cannot advance the time yet", "error", err)
				sleep.For(ctx, retryInterval)
			}
		case <-t.earlier:
		case <-rescan.C:
			t.do.Rescan()
			t.goOn(ctx)
			t.watchBucket(ctx)
			t.moveTimeOn(ctx)
		}
		stop()
	}
}

// pass proposes the schedules that are due, or an empty entry. The entry carries the
// time, at which the machine does the rest. Schedules that do not fit into the entry are
// still due after it.
func (t *Term) pass(ctx context.Context, crons *fires) error {
	now := t.clock.now()
	if now < t.deadline.Load() {
		return nil // the clock is slewed: the timer was early
	}
	due, err := crons.due(now)
	if err != nil {
		return err
	}
	_, err = t.proposals.Do(ctx, own(due))
	return err
}

// waitMax bounds one wait for a deadline, which may be at the end of time.
const waitMax = time.Hour

// nextDeadline returns a channel that fires at the machine's next deadline or earlier, or
// nil if there is no deadline. stop releases the timer. nextDeadline stores the deadline
// for changed, which signals a nearer one.
func (t *Term) nextDeadline() (due <-chan time.Time, stop func()) {
	t.deadline.Store(noDeadline)
	var at int64
	var ok bool
	t.do.Read(func(m *fsm.Machine) { at, ok = m.NextDeadline(t.unreadable) })
	if !ok {
		return nil, func() {}
	}
	t.deadline.Store(at)
	wait := min(at-t.clock.now(), waitMax.Milliseconds())
	timer := time.NewTimer(time.Duration(wait) * time.Millisecond)
	return timer.C, func() { timer.Stop() }
}

const noDeadline = int64(^uint64(0) >> 1)

// Schedules fire through the log. The leader computes the times and proposes a FireCron.
// The machine applies it only if it was proposed for the schedule's next time. So each
// time fires once, even if two leaders propose it, or one leader proposes it twice.

// firesMax bounds the fires in one log entry.
const firesMax = 1000

// schedulesKept bounds the number of parsed specs in memory.
const schedulesKept = 4096

// fires proposes the schedules that are due. It is not safe for concurrent use.
type fires struct {
	term *Term
	read map[[2]string]*crontab.Schedule // parsed, by spec and zone
}

// due returns the mutations for the schedules that are due at now, the earliest first, at
// most as many as fit into one entry.
func (f *fires) due(now int64) (proposal, error) {
	var crons []*fsm.Cron
	f.term.do.Read(func(m *fsm.Machine) {
		m.DueCrons(now, func(c *fsm.Cron) bool {
			if f.term.unreadable(c) {
				return true
			}
			crons = append(crons, c)
			return len(crons) < firesMax
		})
	})
	var p proposal
	for _, c := range crons {
		for _, fire := range f.fire(c, now, firesMax-len(p)) {
			id, err := crontab.NewID(fire.AtMs)
			if err != nil {
				return nil, fmt.Errorf("make an id for the job of schedule %q: %w", c.Name, err)
			}
			fire.JobId = id
			p = append(p, &fsmpb.Mutation{Op: &fsmpb.Mutation_FireCron{FireCron: fire}})
		}
	}
	return p, nil
}

// fire computes the fires of one schedule, at most limit. There is one, or under the policy "all" one for each time that
// has passed. If this version cannot read the schedule, because a newer release created it, fire returns none,
// and a leader that can read it will fire it.
func (f *fires) fire(c *fsm.Cron, now int64, limit int) (all []*fsmpb.FireCron) {
	s, err := f.schedule(c.Spec, c.TimeZone)
	if err != nil {
		f.term.strange.Store([2]string{c.Spec, c.TimeZone}, struct{}{})
		f.term.log.Error("cannot read a schedule of another release; it fires when a node of that release leads, or when "+
			"you put it again",
			"schedule", c.Name, "spec", c.Spec, "zone", c.TimeZone, "reason", err)
		return nil
	}
	s = s.Within(c.StartMs, c.EndMs)
	since, due, until := max(c.LastAtMs, c.UpdatedAtMs), c.NextAtMs, now
	for ; due != 0 && due <= now && len(all) < limit; due = s.Next(since) {
		if fsm.MissedPolicy(c.Missed) == fsm.MissedAll {
			until = due
		}
		fire := &fsmpb.FireCron{Name: c.Name, DueMs: due, Spec: &c.Spec, TimeZone: &c.TimeZone, StartMs: &c.StartMs, EndMs: &c.EndMs}
		fire.AtMs, fire.Missed = s.Latest(since, due, until)
		fire.NextMs = s.Next(fire.AtMs)
		all, since = append(all, fire), fire.AtMs
	}
	return all
}

func (f *fires) schedule(spec, zone string) (*crontab.Schedule, error) {
	key := [2]string{spec, zone}
	if s := f.read[key]; s != nil {
		return s, nil
	}
	s, err := crontab.Parse(spec, zone)
	if err != nil {
		return nil, err
	}
	if f.read == nil || len(f.read) >= schedulesKept {
		f.read = make(map[[2]string]*crontab.Schedule)
	}
	f.read[key] = s
	return s, nil
}
