package hooks

import (
	"cmp"
	"context"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/btree"
	"osqueue/fsm/fsmpb"
	"osqueue/fsm/outbox"
)

const (
	senderConcurrency = 4   // requests at a time, of one hook
	endedMax          = 512 // events of one hook that have ended and are still in the outbox
	urgentMax         = 16  // test events that do not wait for other events
	reportMax         = 256 // events of one report

	reportEvery   = 100 * time.Millisecond
	reportTimeout = 5 * time.Second
	errorEvery    = 5 * time.Minute // between two reports of the same error

	backoffFirst = time.Second
	backoffMax   = 5 * time.Minute  // between two attempts of an event
	pauseMax     = 30 * time.Second // between two requests of a broken hook
	brokenAfter  = 3                // failures without a success between them

	// RetryForDefault is the age at which an event is given up.
	RetryForDefault = 24 * time.Hour
)

// hookSender delivers the events of one hook. All fields belong to the goroutine of run, apart
// from the channels.
type hookSender struct {
	s    *Sender
	node Node
	name string
	stop func()

	views   chan *fsm.View // newest state; of size 1
	results chan result

	view   *fsm.View
	hook   *outbox.Hook
	flight int

	// The outbox is read in the order of ids. Events behind tried are new, apart from those
	// in tries and ended; they take no memory here.
	seen    outbox.EventID          // of the newest event that look has read
	tried   outbox.EventID          // no event up to it is new
	urgent  []outbox.EventID        // test events, oldest first
	tries   map[outbox.EventID]*try // under way, or in waiting
	waiting *btree.Tree[*try]       // for the next attempt, by its time
	ended   map[outbox.EventID]bool // delivered or given up, and in the outbox of view

	broken    int       // failures without a success between them
	lastFail  time.Time // of any event
	lastError string    // of the last failure; "" after a success
	saidError string    // that was reported last
	saidAt    time.Time

	delivered, failed []*fsmpb.HookEventId // not reported yet
	reportAt          time.Time            // of the next report; zero: nothing to report
}

// try records the attempts of one event.
type try struct {
	id       outbox.EventID
	attempts int
	failures int       // since the hook was put
	next     time.Time // of the next attempt
	flying   bool
}

func byNext(a, b *try) bool {
	if !a.next.Equal(b.next) {
		return a.next.Before(b.next)
	}
	return a.id.Compare(b.id) < 0
}

type result struct {
	try    *try
	event  *outbox.Event
	hook   *outbox.Hook // that the attempt was made with
	at     time.Time
	took   time.Duration
	status int
	err    error
}

func newHookSender(s *Sender, node Node, name string, stop func()) *hookSender {
	return &hookSender{
		s: s, node: node, name: name, stop: stop,
		views: make(chan *fsm.View, 1), results: make(chan result, senderConcurrency),
		tries: make(map[outbox.EventID]*try), waiting: btree.New(byNext), ended: make(map[outbox.EventID]bool),
	}
}

// update gives the sender a newer state. Only the goroutine of Sender.Run calls it.
func (h *hookSender) update(v *fsm.View) {
	select {
	case <-h.views:
	default:
	}
	h.views <- v
}

// run delivers until ctx ends. Requests that are under way then are cut; their events are
// still in the outbox.
func (h *hookSender) run(ctx context.Context) {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			for ; h.flight > 0; h.flight-- {
				<-h.results
			}
			return
		case v := <-h.views:
			h.look(v)
		case r := <-h.results:
			h.flight--
			if ctx.Err() == nil { // else the end of ctx cut it, and the receiver is not to blame
				h.settle(r)
			}
		case <-timer.C:
		}
		now := time.Now()
		if !h.reportAt.IsZero() && (now.After(h.reportAt) || len(h.delivered)+len(h.failed) >= reportMax) {
			h.report(ctx)
		}
		timer.Reset(h.start(ctx, now))
	}
}

// look takes over a newer state.
func (h *hookSender) look(v *fsm.View) {
	old := h.hook
	h.view, h.hook = v, v.Hook(h.name)
	if h.hook == nil {
		h.urgent, h.waiting = nil, btree.New(byNext)
		clear(h.tries)
		clear(h.ended)
		return
	}
	if old != nil && wasPut(old, h.hook) {
		h.retryNow()
	}
	for e := range v.HookEvents(h.name, h.seen) {
		h.seen = outbox.IDOf(e)
		if outbox.Kind(e.Kind) == outbox.Tested {
			h.urgent = append(h.urgent, outbox.IDOf(e))
		}
	}
	h.urgent = h.urgent[max(0, len(h.urgent)-urgentMax):]
	for id := range h.ended {
		if v.HookEvent(h.name, id) == nil {
			delete(h.ended, id)
		}
	}
	// A full outbox drops events that wait. Half of the tries at least are of such events, so
	// that their removal takes constant time for each.
	if len(h.tries) > 2*h.hook.Pending+endedMax {
		h.forgetDropped()
	}
}

// wasPut reports whether a hook was put after it was old.
func wasPut(old, now *outbox.Hook) bool { return now.UpdatedMs != old.UpdatedMs || now.Url != old.Url }

// retryNow makes all events due that wait: the cause of the failures may be gone.
func (h *hookSender) retryNow() {
	h.broken = 0
	waiting := btree.New(byNext)
	for t := range h.waiting.Scan {
		t.failures, t.next = 0, time.Time{}
		waiting.Set(t)
	}
	h.waiting = waiting
}

// forgetDropped forgets the events that wait and are not in the outbox.
func (h *hookSender) forgetDropped() {
	for id, t := range h.tries {
		if !t.flying && h.view.HookEvent(h.name, id) == nil {
			h.waiting.Delete(t)
			delete(h.tries, id)
		}
	}
}

// start starts the requests that are due, and returns the time until the next one is.
func (h *hookSender) start(ctx context.Context, now time.Time) time.Duration {
	wait := time.Hour
	if !h.reportAt.IsZero() {
		wait = min(wait, max(h.reportAt.Sub(now), time.Millisecond))
	}
	if h.hook == nil || h.hook.Paused {
		return wait
	}
	for len(h.urgent) > 0 && h.flight < senderConcurrency {
		if e := h.view.HookEvent(h.name, h.urgent[0]); e != nil && h.isNew(e) {
			h.launch(ctx, e)
		}
		h.urgent = h.urgent[1:]
	}
	limit, broken := senderConcurrency, h.broken >= brokenAfter
	if broken {
		limit = 1
		if pause := h.lastFail.Add(h.backoff(h.broken-brokenAfter+1, pauseMax)).Sub(now); pause > 0 {
			h.giveUpOld(now)
			return min(wait, pause)
		}
	}
	for h.flight < limit && len(h.ended) < endedMax {
		e := h.newEvent(broken)
		if e == nil {
			var until time.Duration
			if e, until = h.due(now); e == nil {
				return min(wait, until)
			}
		}
		h.launch(ctx, e)
	}
	return wait
}

// isNew reports whether an event behind h.tried was not tried yet.
func (h *hookSender) isNew(e *outbox.Event) bool {
	id := outbox.IDOf(e)
	return h.tries[id] == nil && !h.ended[id]
}

// newEvent returns the oldest event that was not tried yet, or nil. If the hook is broken, it
// returns one at random: the receiver may reject only some events, and those must not
// delay the others for as long as the pauses of a broken hook last.
func (h *hookSender) newEvent(broken bool) (e *outbox.Event) {
	for next := range h.view.HookEvents(h.name, h.tried) {
		if h.isNew(next) {
			e = next
			break
		}
		h.tried = outbox.IDOf(next)
	}
	if e == nil || !broken {
		return e
	}
	n := int64(0)
	h.eachNew(func(*outbox.Event) bool { n++; return true })
	n = random(n)
	h.eachNew(func(next *outbox.Event) bool { e = next; n--; return n >= 0 })
	return e
}

// eachNew calls fn for the events that were not tried yet, until it returns false.
func (h *hookSender) eachNew(fn func(*outbox.Event) bool) {
	h.view.HookEvents(h.name, h.tried)(func(e *outbox.Event) bool { return !h.isNew(e) || fn(e) })
}

// due takes the event out of waiting that is due first. If none is due, it returns nil and the
// time until one is.
func (h *hookSender) due(now time.Time) (*outbox.Event, time.Duration) {
	for {
		t, ok := h.waiting.Min()
		if !ok {
			return nil, time.Hour
		}
		if until := t.next.Sub(now); until > 0 {
			return nil, until
		}
		h.waiting.Delete(t)
		if e := h.view.HookEvent(h.name, t.id); e != nil {
			return e, 0
		}
		delete(h.tries, t.id) // the outbox was full
	}
}

func (h *hookSender) launch(ctx context.Context, e *outbox.Event) {
	t := h.tries[outbox.IDOf(e)]
	if t == nil {
		t = &try{id: outbox.IDOf(e)}
		h.tries[outbox.IDOf(e)] = t
	}
	t.flying = true
	t.attempts++
	h.flight++
	hook := h.hook
	go func() {
		at := time.Now()
		status, err := h.s.post(ctx, hook, e, at)
		h.results <- result{try: t, event: e, hook: hook, at: at, took: time.Since(at), status: status, err: err}
	}()
}

// settle records the end of an attempt.
func (h *hookSender) settle(r result) {
	t, e := r.try, r.event
	t.flying = false
	attempt := v1.HookAttempt{
		ID: outbox.IDOf(e).String(), Type: outbox.Kind(e.Kind).String(), At: r.at.UnixMilli(), Attempt: t.attempts, TookMs: r.took.Milliseconds(), Status: r.status,
	}
	now := time.Now()
	switch {
	case r.err == nil:
		h.broken, h.lastError = 0, ""
		h.end(outbox.IDOf(e), &h.delivered, now)
	case h.hook != nil && wasPut(r.hook, h.hook):
		attempt.Error = r.err.Error()
		t.failures, t.next = 0, time.Time{}
		h.wait(t)
	default:
		attempt.Error = r.err.Error()
		h.broken++
		h.lastFail, h.lastError = now, attempt.Error
		t.failures++
		t.next = now.Add(h.backoff(t.failures, backoffMax))
		if h.tooOld(e) {
			h.end(outbox.IDOf(e), &h.failed, now)
		} else {
			h.wait(t)
		}
		h.reportSoon(now)
	}
	h.s.note(h.name, attempt)
}

// wait puts a try into waiting, unless look has forgotten it with the hook.
func (h *hookSender) wait(t *try) {
	if h.tries[t.id] == t {
		h.waiting.Set(t)
	}
}

// giveUpOld gives up events that are too old while nothing is delivered.
func (h *hookSender) giveUpOld(now time.Time) {
	for e := range h.view.HookEvents(h.name, outbox.EventID{}) {
		if !h.tooOld(e) || len(h.ended) >= endedMax {
			break
		}
		t := h.tries[outbox.IDOf(e)]
		if h.ended[outbox.IDOf(e)] || t != nil && t.flying {
			continue
		}
		if t != nil {
			h.waiting.Delete(t)
		}
		h.end(outbox.IDOf(e), &h.failed, now)
	}
}

func (h *hookSender) tooOld(e *outbox.Event) bool {
	limit := RetryForDefault.Milliseconds()
	if h.hook != nil {
		limit = cmp.Or(h.hook.RetryForMs, limit)
	}
	return h.node.Now()-e.AtMs > limit
}

func (h *hookSender) end(id outbox.EventID, list *[]*fsmpb.HookEventId, now time.Time) {
	delete(h.tries, id)
	h.ended[id] = true
	*list = append(*list, &fsmpb.HookEventId{Term: id.Term, Index: id.Index, N: id.N})
	h.reportSoon(now)
}

func (h *hookSender) reportSoon(now time.Time) {
	if h.reportAt.IsZero() {
		h.reportAt = now.Add(reportEvery)
	}
}

// report reports what happened since the last report. After an error it keeps all of it for
// the next report: a report that took effect twice changes nothing the second time.
func (h *hookSender) report(ctx context.Context) {
	h.reportAt = time.Time{}
	op := &fsmpb.ReportHook{Name: h.name, Delivered: h.delivered, Failed: h.failed}
	now := time.Now()
	if len(h.delivered) == 0 && h.lastError != "" && (h.lastError != h.saidError || now.Sub(h.saidAt) > errorEvery) {
		op.Error = strings.ToValidUTF8(h.lastError, "?") // it may quote the receiver
	}
	if len(op.Delivered)+len(op.Failed) == 0 && op.Error == "" {
		return
	}
	limited, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	if _, _, err := h.node.Propose(limited, &fsmpb.Mutation{Op: &fsmpb.Mutation_ReportHook{ReportHook: op}}); err != nil {
		h.s.cfg.Log.Debug("cannot record the deliveries of a hook yet", "hook", h.name, "error", err)
		h.reportAt = now.Add(time.Second)
		return
	}
	h.delivered, h.failed = nil, nil
	switch {
	case op.Error != "":
		h.saidError, h.saidAt = op.Error, now
		h.s.cfg.Log.Warn("cannot deliver the events of a hook", "hook", h.name, "error", op.Error)
	case len(op.Delivered) > 0:
		h.saidError = ""
	}
}

// backoff returns the pause after that many failures in sequence, up to most, less up to half of
// it at random.
func (h *hookSender) backoff(failures int, most time.Duration) time.Duration {
	d := most
	if shift := failures - 1; shift < 16 {
		d = min(h.s.cfg.Backoff<<shift, most)
	}
	return d - time.Duration(random(int64(d)/2))
}
