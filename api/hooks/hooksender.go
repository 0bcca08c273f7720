package hooks

import (
	"cmp"
	"context"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
)

const (
	senderConcurrency = 4   // requests at a time, of one hook
	windowMax         = 512 // events of one hook that are known to its sender
	reportMax         = 256 // events of one report

	reportEvery   = 100 * time.Millisecond
	reportTimeout = 5 * time.Second
	errorEvery    = 30 * time.Second // between two reports of the same error

	backoffFirst = time.Second
	backoffMax   = 5 * time.Minute
	brokenAfter  = 3 // failures without a success between them

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
	hook   *fsm.Hook
	known  map[fsm.HookEventID]*try
	flight int

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
	event    *fsm.HookEvent
	attempts int
	next     time.Time // of the next attempt
	flying   bool
	over     bool // delivered or given up; it leaves when the state has it no more
}

type result struct {
	try    *try
	at     time.Time
	took   time.Duration
	status int
	err    error
}

func newHookSender(s *Sender, node Node, name string, stop func()) *hookSender {
	return &hookSender{
		s: s, node: node, name: name, stop: stop,
		views: make(chan *fsm.View, 1), results: make(chan result, senderConcurrency), known: make(map[fsm.HookEventID]*try),
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

// look compares the known events with those of a newer state.
func (h *hookSender) look(v *fsm.View) {
	h.view, h.hook = v, v.Hook(h.name)
	if h.hook == nil {
		clear(h.known)
		return
	}
	for id, t := range h.known {
		if !t.flying && v.HookEvent(h.name, id) == nil {
			delete(h.known, id)
		}
	}
	v.HookEvents(h.name, fsm.HookEventID{}, func(e *fsm.HookEvent) bool {
		if len(h.known) >= windowMax {
			return false
		}
		if h.known[e.ID] == nil {
			h.known[e.ID] = &try{event: e}
		}
		return true
	})
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
	limit := senderConcurrency
	if h.broken >= brokenAfter {
		limit = 1
		if pause := h.lastFail.Add(h.backoff(h.broken - brokenAfter + 1)).Sub(now); pause > 0 {
			h.giveUpOld(now)
			return min(wait, pause)
		}
	}
	for h.flight < limit {
		t := h.nextTry()
		if t == nil {
			return wait
		}
		if until := t.next.Sub(now); until > 0 {
			return min(wait, until)
		}
		h.launch(ctx, t)
	}
	return wait
}

// nextTry returns the event whose attempt is due first, the oldest one of those that were not
// tried yet.
func (h *hookSender) nextTry() (first *try) {
	for _, t := range h.known {
		if t.flying || t.over {
			continue
		}
		if first == nil || t.next.Before(first.next) || t.next.Equal(first.next) && t.event.ID.Compare(first.event.ID) < 0 {
			first = t
		}
	}
	return first
}

func (h *hookSender) launch(ctx context.Context, t *try) {
	t.flying = true
	t.attempts++
	h.flight++
	hook := h.hook
	go func() {
		at := time.Now()
		status, err := h.s.post(ctx, hook, t.event, at)
		h.results <- result{try: t, at: at, took: time.Since(at), status: status, err: err}
	}()
}

// settle records the end of an attempt.
func (h *hookSender) settle(r result) {
	t := r.try
	t.flying = false
	attempt := v1.HookAttempt{
		ID: t.event.ID.String(), Type: t.event.Kind.String(), At: r.at.UnixMilli(), Attempt: t.attempts, TookMs: r.took.Milliseconds(), Status: r.status,
	}
	now := time.Now()
	if r.err == nil {
		h.broken, h.lastError = 0, ""
		h.end(t, &h.delivered, now)
	} else {
		attempt.Error = r.err.Error()
		h.broken++
		h.lastFail, h.lastError = now, attempt.Error
		t.next = now.Add(h.backoff(t.attempts))
		if h.tooOld(t) {
			h.end(t, &h.failed, now)
		}
		h.reportSoon(now)
	}
	h.s.note(h.name, attempt)
}

// giveUpOld gives up events that are too old while nothing is delivered.
func (h *hookSender) giveUpOld(now time.Time) {
	for _, t := range h.known {
		if !t.flying && !t.over && h.tooOld(t) {
			h.end(t, &h.failed, now)
		}
	}
}

func (h *hookSender) tooOld(t *try) bool {
	limit := RetryForDefault.Milliseconds()
	if h.hook != nil {
		limit = cmp.Or(h.hook.RetryForMs, limit)
	}
	return h.node.Now()-t.event.At > limit
}

func (h *hookSender) end(t *try, list *[]*fsmpb.HookEventId, now time.Time) {
	t.over = true
	id := t.event.ID
	*list = append(*list, &fsmpb.HookEventId{Term: id.LSN.Term, Index: id.LSN.Index, N: id.N})
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

// backoff returns the pause after that many failures in sequence, less up to half of it at
// random.
func (h *hookSender) backoff(failures int) time.Duration {
	d := backoffMax
	if shift := failures - 1; shift < 16 {
		d = min(h.s.cfg.Backoff<<shift, backoffMax)
	}
	return d - time.Duration(random(int64(d)/2))
}
