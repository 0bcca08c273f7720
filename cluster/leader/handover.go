package leader

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/hashicorp/raft"

	"osqueue/internal/sleep"
	"osqueue/storage"
	"osqueue/storage/probe"
)

// Raft's leader may be the only node that cannot use the bucket: its credentials, its network
// or its mount are broken. Then the queue would stop although the others are well. So raft's
// leader, active or not, watches its calls of the bucket. If they fail or hang for longer than
// patience, it asks all other voters over the node plane to try the bucket, and tries it again
// itself. If it fails and a voter with the log succeeds, it hands raft's leadership to that voter.
//
// Every node tries the same (CheckBucket): it reads the document, and writes an object of its
// size. So a bucket that is full, read-only, slow or away for all moves no leadership. Each
// round without a hand-over doubles the pause before the next one, and a node that hands over
// twice within a minute waits longer the next time: an outage that comes and goes must not make
// the leaders rotate.
//
// The duty has a goroutine of its own, because the goroutines of a candidate or a leader term
// may hang in a call of the bucket.

const (
	handoverTick  = 100 * time.Millisecond
	failPatience  = 1500 * time.Millisecond // before a leader asks, if its calls fail
	hangPatience  = 2 * time.Second         // the same, if they do not end
	patienceMax   = 30 * time.Second
	leastAskPause = 500 * time.Millisecond
	mostAskPause  = 10 * time.Second
	againWithin   = time.Minute // a hand-over so soon after the last one doubles the patience
	// checkTimeout bounds one try of the bucket. The answer to the leader has to arrive within the
	// timeout of calls between nodes, 2 s.
	checkTimeout = 1500 * time.Millisecond
	checkMax     = 1 << 20 // largest object that a try writes
	// handoverBehind is how many entries a voter may lag to get the leadership. Raft sends
	// them before it hands over.
	handoverBehind  = 1024
	handoverTimeout = 5 * time.Second
)

// stalled says since when raft's leader cannot use the bucket.
type stalled struct {
	since  time.Time // zero: it can
	reason string    // "": its calls do not end
}

// campaignState is what a candidate's goroutine last reported about the bucket.
type campaignState struct {
	term uint64
	fine bool // the bucket answered
	stalled
}

// answer is the outcome of a voter's try.
type answer struct {
	Voter
	err error // nil: it can use the bucket
}

// situation is what decideHandover looks at.
type situation struct {
	stalled  time.Duration // for how long this node has not been able to use the bucket; 0: it can
	patience time.Duration
	paused   bool     // the pause after the last round is not over
	voters   int      // other voters
	asked    bool     // the next fields are set
	own      error    // outcome of this node's own try
	answers  []answer // of the other voters
}

type handoverAction int

const (
	stay handoverAction = iota
	ask
	handOver
)

// decideHandover decides what raft's leader does about its bucket. It has no effects.
func decideHandover(s situation) (action handoverAction, to raft.ServerID) {
	switch {
	case s.stalled == 0 || s.stalled < s.patience || s.paused || s.voters == 0:
		return stay, ""
	case !s.asked:
		return ask, ""
	case s.own == nil: // the bucket is slow, or its calls fail for another reason
		return stay, ""
	}
	best := -1
	for i, a := range s.answers {
		if a.err == nil && a.Behind <= handoverBehind && (best < 0 || a.Behind < s.answers[best].Behind) {
			best = i
		}
	}
	if best < 0 {
		return stay, ""
	}
	return handOver, s.answers[best].ID
}

// watchHandover gives leadership away while this node cannot use the bucket and another voter
// can. It runs until ctx ends.
func (l *Leader) watchHandover(ctx context.Context) {
	var led time.Time // since when this node has led without a break; zero: it does not
	var next time.Time
	var last time.Time // of the last hand-over
	pause, again := leastAskPause, 0
	for sleep.For(ctx, handoverTick) {
		if !l.do.Leads() {
			led = time.Time{}
			l.finding.Store(nil)
			continue
		}
		if led.IsZero() {
			led, next, pause = time.Now(), time.Time{}, leastAskPause
		}
		s := l.situation(led, again, next)
		if s.stalled == 0 {
			pause = leastAskPause
			l.finding.Store(nil)
		}
		if action, _ := decideHandover(s); action != ask {
			continue
		}
		s.answers, s.own = l.askVoters(ctx)
		now := l.situation(led, again, next) // asking takes a while
		s.stalled, s.asked = now.stalled, true
		action, to := decideHandover(s)
		l.noteFinding(s, to)
		if action != handOver {
			next, pause = time.Now().Add(pause), min(2*pause, mostAskPause)
			continue
		}
		l.log.Warn("this node cannot use the bucket and another one can; handing leadership over", "to", to, "reason", s.own)
		if last.IsZero() || time.Since(last) > againWithin {
			again = 0
		}
		last, again = time.Now(), again+1
		if err := l.handOver(ctx, to); err != nil && ctx.Err() == nil {
			l.log.Warn("leadership was not handed over; trying again", "to", to, "error", err)
		}
		next, pause = time.Now().Add(pause), min(2*pause, mostAskPause)
	}
}

func (l *Leader) handOver(ctx context.Context, to raft.ServerID) error {
	ctx, cancel := context.WithTimeout(ctx, handoverTimeout)
	defer cancel()
	return l.do.HandOver(ctx, to)
}

// situation returns what this node sees before it asks. again is the number of its recent
// hand-overs, and next the time before which it does not ask.
func (l *Leader) situation(led time.Time, again int, next time.Time) situation {
	st := l.stalledSince(led)
	s := situation{paused: time.Now().Before(next), voters: len(l.do.Voters())}
	if st.since.IsZero() {
		return s
	}
	s.stalled = max(time.Since(st.since), 1)
	s.patience = failPatience
	if st.reason == "" {
		s.patience = hangPatience
	}
	s.patience = min(s.patience, l.cfg.BrokerTimeout/6)
	if again > 1 {
		s.patience = min(s.patience<<min(again-1, 8), patienceMax)
	}
	return s
}

// stalledSince returns since when this node, which has been raft's leader since led, cannot use
// the bucket.
func (l *Leader) stalledSince(led time.Time) (s stalled) {
	if t := l.Active(); t != nil {
		s.since, s.reason = t.flusher.Stalled()
		return s
	}
	c := l.campaigns.Load()
	switch {
	case c == nil || c.term != l.do.Term():
		s.since = led // no campaign of this term has begun: the last term hangs in the bucket
	case !c.fine:
		s = c.stalled
	}
	if !s.since.IsZero() && s.since.Before(led) {
		s.since = led
	}
	return s
}

// bucketError is the error of a campaign that could not use the bucket.
type bucketError struct{ error }

// Unwrap returns the cause.
func (e *bucketError) Unwrap() error { return e.error }

// cannotUse records that a campaign could not use the bucket.
func (l *Leader) cannotUse(err error) error {
	l.watch.Missed()
	l.setFence(FenceUnreachable, err.Error())
	return &bucketError{err}
}

// noteCampaign records the begin of a campaign (ended is false), or its outcome.
func (l *Leader) noteCampaign(ended bool, err error) {
	c := &campaignState{term: l.do.Term(), stalled: stalled{since: time.Now()}}
	var failed *bucketError
	switch last := l.campaigns.Load(); {
	case ended && !errors.As(err, &failed):
		c.fine = true
	case last != nil && !last.fine && last.term == c.term:
		c.since, c.reason = last.since, last.reason
	}
	if failed != nil {
		c.reason = failed.Error()
	}
	l.campaigns.Store(c)
}

// askVoters tries the bucket on this node and on all other voters at the same time.
func (l *Leader) askVoters(ctx context.Context) (answers []answer, own error) {
	ctx, cancel := context.WithTimeout(ctx, l.checkTimeout()+handoverTick*4)
	defer cancel()
	voters := l.do.Voters()
	answers = make([]answer, len(voters))
	var wg sync.WaitGroup
	wg.Go(func() { own = l.CheckBucket(ctx) })
	for i, v := range voters {
		wg.Go(func() { answers[i] = answer{Voter: v, err: l.do.AskBucket(ctx, v.ID)} })
	}
	wg.Wait()
	return answers, own
}

// noteFinding stores what a round has shown, for the status.
func (l *Leader) noteFinding(s situation, to raft.ServerID) {
	var text string
	switch {
	case s.own == nil:
		text = "a test write succeeds"
	case to != "":
		text = fmt.Sprintf("handing leadership over to %s, which can use the bucket", to)
	default:
		parts := make([]string, 0, len(s.answers))
		for _, a := range s.answers {
			if a.err != nil {
				parts = append(parts, fmt.Sprintf("%s: %v", a.ID, a.err))
			} else {
				parts = append(parts, fmt.Sprintf("%s can, and lacks %d log entries", a.ID, a.Behind))
			}
		}
		text = "no other voter can take the lead (" + strings.Join(parts, "; ") + ")"
		if l.Active() == nil {
			l.setFence(FenceUnreachable, fmt.Sprintf("%v; %s", s.own, text))
		}
	}
	l.finding.Store(&text)
}

func (l *Leader) checkTimeout() time.Duration {
	return min(checkTimeout, max(l.cfg.BrokerTimeout/4, 250*time.Millisecond))
}

// CheckBucket reports whether this node can use the bucket: it reads the document and writes an
// object of its size. It returns within checkTimeout, even if the bucket hangs. Callers share one try, so
// that a hung bucket holds one goroutine.
func (l *Leader) CheckBucket(ctx context.Context) error {
	limit := l.checkTimeout()
	tried := l.checks.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
		defer cancel()
		return nil, l.tryBucket(ctx)
	})
	select {
	case try := <-tried:
		return try.Err
	case <-time.After(limit):
		return fmt.Errorf("the bucket has not answered for %v", limit)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// tryBucket reads the document, and writes and deletes a probe object of the document's size.
func (l *Leader) tryBucket(ctx context.Context) error {
	o, err := l.cfg.Bucket.Get(ctx, DocumentKey)
	if err != nil && (!errors.Is(err, storage.ErrNotFound) || l.meta().Lineage != "") {
		return fmt.Errorf("read the document: %w", err)
	}
	data := make([]byte, min(max(len(o.Data), 1), checkMax))
	_, _ = rand.Read(data) // never fails
	key := probe.Prefix + rand.Text()
	if w := l.cfg.Bucket.PutIfAbsent(ctx, key, data); w.Outcome != storage.Committed {
		return fmt.Errorf("write a probe object: %s: %w", w.Outcome, w.Err)
	}
	if err := l.cfg.Bucket.Delete(ctx, key); err != nil {
		l.log.Debug("cannot delete a probe object; the next collection does", "key", key, "error", err)
	}
	return nil
}

// Finding returns what the last round of raft's leader that cannot use the bucket has shown;
// "": there was none since its calls succeeded.
func (l *Leader) Finding() string {
	if f := l.finding.Load(); f != nil {
		return *f
	}
	return ""
}
