package leader

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/google/uuid"

	"osqueue/cluster/flush"
	"osqueue/election"
	"osqueue/fsm"
	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/archive"
	"osqueue/storage/document"
)

// bucketTimeout bounds one read or one write of the document in a campaign, including the
// reads that resolve an unknown outcome.
const bucketTimeout = 10 * time.Second

// campaign makes one attempt to acquire the document. It returns the leader term, or how
// long to wait before the next attempt and why.
func (l *Leader) campaign(ctx context.Context) (*Term, time.Duration, error) {
	early, stop := l.readEarly(ctx)
	defer stop()
	term, err := l.caughtUp(ctx)
	if err != nil {
		return nil, l.cfg.Flush.ConflictBackoff, err
	}
	l.setFence(FenceStandby, "reading the document in the bucket")
	for read := early; ; read = func() reading { return l.readNow(ctx) } {
		got := read()
		seen, asked := got.seen, got.asked
		if err := got.err; err != nil {
			return nil, time.Second, l.cannotUse(fmt.Errorf("read the document: %w", err))
		}
		me := l.asCandidate(seen.Doc)
		heard := election.Silence{
			For:     l.watch.Saw(seen, asked, election.TimeoutOf(seen.Doc, l.cfg.BrokerTimeout)/2),
			Timeout: l.cfg.BrokerTimeout,
			Now:     l.cfg.Clock(),
		}.Of(seen.Doc, me)
		d := election.Decide(seen, me, heard)
		switch d.Action {
		case election.Create, election.TakeOver:
			if l.mayBeRemoved(d.Action, heard) {
				const removed = "another cluster's document was removed just now; its leader may write it again"
				l.setFence(FenceStandby, removed)
				return nil, l.standbyWait(seen, heard), errors.New(removed)
			}
			if err := l.mayCreate(ctx, d.Action, &me); err != nil {
				return nil, l.cfg.StandbyRetry, err
			}
			return l.takeOver(ctx, term, seen, me)
		case election.Adopt:
			if err := l.adoptObserved(ctx, term, seen); err != nil {
				l.setFence(FenceStandby, err.Error())
				return nil, time.Second, &bucketError{fmt.Errorf("adopt the document: %w", err)}
			}
		case election.Refuse:
			l.setFence(FenceRefused, d.Reason)
			return nil, l.cfg.StandbyRetry, errors.New(d.Reason)
		case election.StepDown:
			// If a majority follows a later term, VerifyLeader ends this leadership. If it
			// does not, no node of this cluster has written the document.
			if err := l.do.Verify(ctx); err != nil {
				return nil, l.cfg.Flush.ConflictBackoff, fmt.Errorf("%s; step down: %w", d.Reason, err)
			}
			d.Reason += ": " + election.CopyWarning(seen.Doc.Header.Node, d.Leader)
			fallthrough
		default:
			l.setFence(FenceStandby, d.Reason)
			l.prepare(ctx, seen, heard)
			l.announce(ctx)
			return nil, l.standbyWait(seen, heard), errors.New(d.Reason)
		}
	}
}

// reading is the result of a read of the document that began at asked.
type reading struct {
	asked time.Time
	seen  election.Observed
	err   error
}

func (l *Leader) readNow(ctx context.Context) reading {
	asked := time.Now()
	seen, err := l.readDocument(ctx)
	return reading{asked, seen, err}
}

// readEarly begins to read the document, so that the bucket answers while the log is applied. If
// the document changes after it was read, acquiring it fails, as it does with a later read. result
// waits for the read; stop ends it, and has to be called.
func (l *Leader) readEarly(ctx context.Context) (result func() reading, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	read := make(chan reading, 1)
	var wg sync.WaitGroup
	wg.Go(func() { read <- l.readNow(ctx) })
	return func() reading { return <-read }, func() { cancel(); wg.Wait() }
}

func (b *base) readDocument(ctx context.Context) (election.Observed, error) {
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	seen, err := election.Read(ctx, b.cfg.Bucket, DocumentKey)
	b.note(seen.Doc)
	return seen, err
}

// asCandidate describes this node and its state to package election.
func (l *Leader) asCandidate(doc *document.File) election.Candidate {
	v := l.do.Freeze()
	m := v.Meta()
	counts := v.Counts()
	var named []string // by an earlier leader of this cluster
	if doc != nil && doc.Header != nil && doc.Header.Cluster == l.do.ClusterID() {
		named = doc.Fence().Standbys
	}
	return election.Candidate{
		Node:      l.cfg.Name,
		Address:   l.cfg.HTTPAdvertise,
		Cluster:   l.do.ClusterID(),
		Lineage:   m.Lineage,
		Epoch:     m.Epoch,
		LSN:       fsm.LSN{Term: l.do.Term() + m.TermBase, Index: m.LSN().Index},
		Applied:   m.LSN(),
		Populated: m.Lineage != "" || counts != fsm.Counts{},
		Fence:     l.fenceOf(named),
		Adopted:   storage.Version(m.Adopted),
	}
}

// takeOver acquires the document and begins a leader term.
func (l *Leader) takeOver(ctx context.Context, term uint64, seen election.Observed, me election.Candidate) (*Term, time.Duration, error) {
	backoff := l.cfg.Flush.ConflictBackoff
	newest, err := l.keepEdited(ctx, seen)
	if err != nil {
		return nil, time.Second, l.cannotUse(err)
	}
	clock, limited := l.startClock(ctx) // before the entries of takeIn, which count as time that has passed
	if newest {
		added, err := l.unknownSince(ctx, seen.Doc)
		if err != nil {
			return nil, time.Second, l.cannotUse(err)
		}
		if err := l.takeIn(ctx, added, l.proposeEarly); err != nil {
			return nil, backoff, fmt.Errorf("take in an edit of the document: %w", err)
		}
	}
	first, err := l.firstContent(ctx, seen, me)
	if err != nil {
		return nil, time.Second, l.cannotUse(err)
	}
	acquire, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	now := l.nowMs() // a new reading: writing a checkpoint takes time
	fence, err := election.Acquire(acquire, l.cfg.Bucket, DocumentKey, seen, me, first, now)
	if errors.Is(err, election.ErrConflict) {
		return nil, backoff, err
	}
	if err != nil {
		return nil, time.Second, l.cannotUse(fmt.Errorf("take the document over: %w", err))
	}
	l.seen.Store(true)
	r, err := l.beginTerm(ctx, term, fence, me.Fence.Standbys, first, clock)
	if err != nil {
		return nil, backoff, err
	}
	l.withdraw(ctx)
	r.behind.Store(limited)
	return r, 0, nil
}

// firstContent returns the content with which this node acquires the document. If it needs a
// checkpoint, that takes a while.
func (l *Leader) firstContent(ctx context.Context, seen election.Observed, me election.Candidate) (*document.Content, error) {
	lineage := me.Lineage
	if lineage == "" && seen.Doc != nil {
		lineage = seen.Doc.Lineage()
	}
	if lineage == "" {
		lineage = uuid.NewString()
	}
	adopted := me.Adopted != "" && me.Adopted == seen.Version
	incomplete, err := l.isIncomplete(ctx, seen.Doc)
	if err != nil {
		return nil, err
	}
	return flush.First(ctx, l.cfg.Flush, l.cfg.Bucket, lineage, seen.Doc, l.do.Freeze(), l.do.Unflushed, adopted || incomplete)
}

// standbyPolls is how often a standby reads the document within a broker timeout. It does
// not notice an outage of the bucket that is shorter than the time between two reads.
const standbyPolls = 4

// standbyWaitFloor is the least time between two reads of the document by a standby.
const standbyWaitFloor = 100 * time.Millisecond

// standbyWait returns how long a standby sleeps until it reads the document again.
func (l *Leader) standbyWait(seen election.Observed, heard election.Silence) time.Duration {
	wait := min(heard.Remaining(), heard.Timeout/standbyPolls, l.cfg.StandbyRetry)
	if seen.Doc != nil && seen.Doc.Overtaken { // the document's broker may follow the wall clock
		stale := time.UnixMilli(seen.Doc.BrokerHeartbeat).Add(heard.Timeout + 10*time.Millisecond).Sub(heard.Now)
		if stale > 0 {
			wait = min(wait, stale)
		}
	}
	return max(wait, standbyWaitFloor)
}

// Adopt replaces the state of the cluster by the state of the document, on every node,
// through raft. The adopted state gets a term of LSNs of its own: entries that the
// document's cluster had committed, and that no node has any more, must not share an LSN
// with later entries. Jobs that this cluster has acknowledged and the document lacks are
// carried over (carry.go).
func (l *Leader) Adopt(ctx context.Context, term uint64, seen election.Observed) error {
	doc := seen.Doc
	m, err := l.stateOf(ctx, seen)
	if err != nil {
		return err
	}
	if err := l.noteDoubts(ctx, seen); err != nil {
		return err
	}
	l.log.Info("adopting the document in the bucket", "lsn", doc.LSN(), "lineage", doc.Lineage())
	c := carry(m, doc, l.do.Freeze(), l.do.ClusterID())
	copied, err := l.keep(ctx, c)
	if err != nil {
		return err
	}
	flush.Adopt(m, l.do.ClusterID(), seen.Version, term, l.lsn())
	if err := l.do.Restore(ctx, m.View(), term); err != nil {
		return err
	}
	l.noteCarried(c, copied)
	if doc.Header != nil {
		return nil
	}
	// No successor extends the leases of a legacy broker. Leases that expired while it was
	// dead expire now, and the jobs return to the queue, as they would if that broker had
	// continued.
	clock, _ := l.startClock(ctx)
	_, err = l.Apply(ctx, clock.now())
	return err
}

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

// ErrOrphan says why an empty cluster does not begin a queue next to the archive of
// another one.
var ErrOrphan = errors.New("the bucket has no " + DocumentKey + ", but an archive of one, and this cluster is empty: " +

	"make the newest state in the archive the document with `osqueue verify BUCKET-URL --repair`, " +
	"start a node that still has its disk, or give this cluster another bucket or prefix")

// ErrNotAdopted says why a cluster with state does not begin a document in a bucket that has
// none.
var ErrNotAdopted = errors.New("the bucket has no " + DocumentKey + ", and this node has not seen one there since its start, but its cluster has state: " +
	"is it the right bucket, and is it mounted? If so, run `osqueue bucket adopt BUCKET-URL`, and the leader writes its state there")

// mayCreate returns an error if there is no document, and this cluster must not begin one. A
// cluster without state does not if the bucket contains the archive of another cluster: its
// document was lost, and a new queue would replace it. A cluster with state does not if the
// bucket may be another one than it has used: this node has not seen its document there, and
// there is no marker. mayCreate makes up to three listings of one page, or a read, and only if
// there is no document.
func (l *Leader) mayCreate(ctx context.Context, a election.Action, me *election.Candidate) error {
	if a != election.Create || l.seen.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, bucketTimeout)
	defer cancel()
	if me.Lineage != "" {
		return l.mustBeMarked(ctx)
	}
	if me.Populated {
		return nil
	}
	found, err := archive.HasArchive(ctx, l.cfg.Bucket)
	switch {
	case err != nil:
		l.setFence(FenceStandby, err.Error())
		return fmt.Errorf("search for an archive: %w", err)
	case found:
		l.setFence(FenceRefused, ErrOrphan.Error())
		return ErrOrphan
	}
	return nil
}

// mustBeMarked returns an error if the bucket has no marker.
func (l *Leader) mustBeMarked(ctx context.Context) error {
	o, err := l.cfg.Bucket.Get(ctx, storage.MarkerKey)
	switch {
	case err == nil && storage.MarkerID(o.Data) != "":
		return nil
	case err == nil || errors.Is(err, storage.ErrNotFound):
		l.setFence(FenceRefused, ErrNotAdopted.Error())
		return ErrNotAdopted
	}
	l.setFence(FenceStandby, err.Error())
	return fmt.Errorf("search for the marker: %w", err)
}

// meet reads the document until this node has seen the one of its cluster in the bucket. From
// then on the node knows that it is the right bucket, also if the document is removed.
func (l *Leader) meet(ctx context.Context) {
	for !l.seen.Load() {
		if l.meta().Lineage != "" {
			_, _ = l.readDocument(ctx) // notes what it sees
		}
		if l.seen.Load() || !sleep.For(ctx, l.cfg.StandbyRetry) {
			return
		}
	}
}

// note remembers whose document this node has seen.
func (b *base) note(doc *document.File) {
	if doc != nil && doc.Header != nil {
		b.noteVersion(doc.Header.Lineage, doc.Header.Epoch, doc.LSN())
	}
	switch lineage := b.meta().Lineage; {
	case doc == nil:
	case lineage != "" && doc.Lineage() == lineage:
		b.seen.Store(true)
	case doc.Header != nil && doc.Header.Cluster != b.do.ClusterID():
		b.rivals.Store(true)
	}
}

// mayBeRemoved reports whether a document of another cluster that this one has seen is gone for
// less than the broker timeout. A leader that lives writes it again within that time.
func (l *Leader) mayBeRemoved(a election.Action, heard election.Silence) bool {
	return a == election.Create && l.rivals.Load() && heard.Remaining() > 0
}

// caughtUp waits until this node has applied every entry that was committed before the
// current term. It returns the term.
func (l *Leader) caughtUp(ctx context.Context) (term uint64, err error) {
	term = l.do.Term()
	if err := l.do.Barrier(ctx); err != nil {
		return 0, fmt.Errorf("wait for the log to be applied: %w", err)
	}
	if l.do.Term() != term || !l.do.Leads() {
		return 0, errors.New("leadership changed while the log was applied")
	}
	return term, nil
}
