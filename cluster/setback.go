package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"osqueue/cluster/flush"
	"osqueue/fsm"
	"osqueue/internal/crontab"
)

// The queue's time never decreases by itself. If a wrong clock has advanced it, an
// operator can set it back to the time that the clocks agree on. SetClockBack leaves a
// request in Node.setBack and ends the leader term. The candidate's goroutine acquires
// the document again; before that, applySetBack takes the request, restores the state as
// of that time on all nodes, in a new term of LSNs like an adoption, and sends the answer
// to done. Until the new leader term begins, no write is answered. If the leader ends in
// between, the cluster has either the old or the new state.

// SetBack is the result of setting the time back: the queue's time before and after it.
type SetBack struct {
	Before int64 `json:"before"` // ms
	Now    int64 `json:"now"`    // ms
}

// setBackRequest is a request that waits until the leader term has ended. done has
// capacity 1.
type setBackRequest struct {
	ctx  context.Context
	done chan setBackAnswer
}

type setBackAnswer struct {
	times SetBack
	err   error
}

// setBackFloor is how far ahead the queue's time must be. The leader's clock corrects
// smaller differences by itself within a minute.
const setBackFloor = 5 * time.Second

// errSetBack ends a leader term so that the time can be set back.
var errSetBack = errors.New("the queue's time is set back")

// SetClockBack sets the queue's time back to the time that a majority of the wall clocks
// agree on. It returns when the state with that time is restored; writes are answered
// again soon after. It returns ErrNotLeader on every node but the active leader, an
// ErrUnknown if ctx ends first, and otherwise an error that says what to do.
func (n *Node) SetClockBack(ctx context.Context) (SetBack, error) {
	r := n.active()
	if r == nil {
		return SetBack{}, ErrNotLeader
	}
	n.measureClocks(ctx)
	if !n.clocksAgree() {
		return SetBack{}, errors.New("the wall clocks of a majority do not agree within 1s: set them right first (NTP)")
	}
	if ahead := time.Duration(r.clock.now()-n.wall().UnixMilli()) * time.Millisecond; ahead < setBackFloor {
		return SetBack{}, fmt.Errorf("the queue's time is ahead by %v only: the leader's clock loses that by itself", ahead)
	}
	if failing := r.flusher.Failing(); failing != "" {
		return SetBack{}, fmt.Errorf("the bucket has to be reached for that, and the last flush failed: %s", failing)
	}
	req := &setBackRequest{ctx: ctx, done: make(chan setBackAnswer, 1)}
	if !n.setBack.CompareAndSwap(nil, req) {
		return SetBack{}, errors.New("the time is being set back already")
	}
	defer n.setBack.CompareAndSwap(req, nil)
	r.stop()
	select {
	case a := <-req.done:
		return a.times, a.err
	case <-ctx.Done():
		return SetBack{}, fmt.Errorf("%w: whether the time was set back: %w", ErrUnknown, ctx.Err())
	}
}

// applySetBack restores the state at the earlier time, if that was requested, answers the
// request, and reports whether it was done. No write is proposed while it runs.
func (n *Node) applySetBack(ctx context.Context, term uint64) (done bool) {
	req := n.setBack.Swap(nil)
	if req == nil || req.ctx.Err() != nil {
		return false
	}
	var a setBackAnswer
	a.times, a.err = n.restoreEarlier(ctx, term)
	if a.err != nil {
		n.log.Error("the queue's time was not set back", "reason", a.err)
	} else {
		n.log.Warn("the queue's time was set back", "from", time.UnixMilli(a.times.Before).UTC(), "to", time.UnixMilli(a.times.Now).UTC())
	}
	req.done <- a
	return a.err == nil
}

// restoreEarlier restores the state with the time of the wall clocks on all nodes. It
// takes time in proportion to the size of the queue, because it rebuilds the whole state.
func (n *Node) restoreEarlier(ctx context.Context, term uint64) (SetBack, error) {
	v := n.replica.freeze()
	times := SetBack{Before: v.Meta().Now, Now: n.wall().UnixMilli()}
	if times.Now >= times.Before {
		return times, errors.New("the queue's time is not ahead")
	}
	m, err := fsm.SetBack(v, times.Now, func(c *fsm.Cron) int64 { return nextOf(c, times.Now) })
	if err != nil {
		return times, err
	}
	flush.Adopt(m, n.clusterID(), term, v.LSN())
	return times, n.restore(ctx, m.View(), term)
}

// nextOf returns a schedule's next time after now. If this version cannot read the
// schedule, its next time does not change.
func nextOf(c *fsm.Cron, now int64) int64 {
	s, err := crontab.Parse(c.Spec, c.TimeZone)
	if err != nil {
		return c.NextAt
	}
	return s.Next(now)
}

// setBackPatience bounds one request: restoring a large state takes a while.
const setBackPatience = 5 * time.Minute

// serveSetBack serves POST clock/back, a request of an operator's tool.
func (n *Node) serveSetBack(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, io.LimitReader(r.Body, identityMax)) // the request has no fields
	ctx, cancel := context.WithTimeout(r.Context(), setBackPatience)
	defer cancel()
	times, err := n.SetClockBack(ctx)
	switch {
	case err == nil:
		writeJSON(w, http.StatusOK, times)
	case errors.Is(err, ErrNotLeader):
		writeJSON(w, http.StatusMisdirectedRequest, refusal{Message: err.Error(), Leader: n.leaderHTTP()})
	default:
		writeJSON(w, http.StatusConflict, refusal{Message: err.Error()})
	}
}

// AskToSetBack asks the node at an HTTP address, which must be the active leader, to set
// the queue's time back.
func AskToSetBack(ctx context.Context, client *http.Client, address string) (times SetBack, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+PeerPath+"clock/back", nil)
	if err != nil {
		return times, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return times, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, identityMax))
	switch {
	case err != nil:
		return times, err
	case resp.StatusCode != http.StatusOK:
		return times, refused(address, resp.Status, body)
	}
	return times, json.Unmarshal(body, &times)
}
