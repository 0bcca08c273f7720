package cluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"osqueue/cluster/leader"
	"osqueue/cluster/membership"
	"osqueue/fsm"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/crontab"
	"osqueue/internal/peeranswer"
)

// The queue's time never decreases by itself. If a wrong clock has advanced it, an
// operator can set it back. SetClock leaves the request in Node.setClock and ends the
// leader term, so that no entry of the old clock comes after. The candidate's goroutine
// acquires the document again; before that, applySetClock takes the request, commits a
// SetClock, which fsm describes, and sends the answer to done. The new leader term starts
// at the new time. Until then no write is answered. A repeated request has the same key
// and is done once, whichever leader gets it.

// ClockRequest is an operator's request to set the queue's time back.
type ClockRequest struct {
	Key string `json:"key,omitempty"` // of a repeated request; "" repeats none
	To  int64  `json:"to,omitzero"`   // ms; 0: the time that a majority of the wall clocks agree on
}

// ClockSet is the answer to a ClockRequest. The first two are 0 if it was repeated.
type ClockSet struct {
	Before   int64  `json:"before,omitzero"` // queue's time before, ms
	Now      int64  `json:"now,omitzero"`    // and after
	By       uint64 `json:"by"`              // by how much it was set back, ms
	Repeated bool   `json:"repeated,omitzero"`
}

// request returns the request of the mutation. Clients cannot send such a key.
func (c *ClockRequest) request() *fsmpb.Request {
	if c.Key == "" {
		c.Key = randomKey()
	}
	return &fsmpb.Request{Key: "\x00clock:" + c.Key, Fingerprint: strconv.AppendInt(nil, c.To, 10)}
}

// randomKey returns 64 random bits in hexadecimal.
func randomKey() string { return fmt.Sprintf("%016x", rand.Uint64()) }

// setClockRequest is a request that waits until the leader term has ended. done has
// capacity 1.
type setClockRequest struct {
	ctx  context.Context
	to   int64 // ms
	req  *fsmpb.Request
	done chan setClockAnswer
}

type setClockAnswer struct {
	set ClockSet
	err error
}

// setClockFloor is how far ahead the queue's time must be. The leader's clock corrects
// smaller differences by itself within a minute.
const setClockFloor = 5 * time.Second

// SetClock sets the queue's time back. It returns when the log entry is applied; writes
// are answered again soon after. It returns ErrNotLeader on every node but the active
// leader, an ErrUnknown if the entry may be committed, and otherwise an error that says
// what to do.
func (n *Node) SetClock(ctx context.Context, c ClockRequest) (ClockSet, error) {
	r := n.active()
	if r == nil {
		return ClockSet{}, ErrNotLeader
	}
	req := &setClockRequest{ctx: ctx, req: c.request(), done: make(chan setClockAnswer, 1)}
	requested := false
	n.replica.read(func(m *fsm.Machine) { requested = m.Requested(req.req) })
	if requested {
		return n.repeatSetClock(ctx, req)
	}
	var err error
	if req.to, err = n.newTime(ctx, r, c.To); err != nil {
		return ClockSet{}, err
	}
	if failing := r.Failing(); failing != "" {
		return ClockSet{}, fmt.Errorf("setting the time back needs the bucket, but the last flush failed: %s", failing)
	}
	if !n.setClock.CompareAndSwap(nil, req) {
		return ClockSet{}, errors.New("the time is being set back already")
	}
	defer n.setClock.CompareAndSwap(req, nil)
	r.Stop()
	select {
	case a := <-req.done:
		return a.set, a.err
	case <-ctx.Done():
		return ClockSet{}, fmt.Errorf("%w: the time may have been set back or not: %w", ErrUnknown, ctx.Err())
	}
}

// repeatSetClock returns the answer to a request that was done before. The time of the
// mutation is never in the past, so that it changes nothing.
func (n *Node) repeatSetClock(ctx context.Context, req *setClockRequest) (ClockSet, error) {
	op := &fsmpb.SetClock{ToMs: math.MaxInt64}
	res, _, err := n.Propose(ctx, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetClock{SetClock: op}, Request: req.req})
	return ClockSet{By: res.Count, Repeated: true}, errors.Join(err, res.Code.Err())
}

// newTime returns the time to which the queue's time is set, in ms, or why it is not. to
// is the requested time, or 0.
func (n *Node) newTime(ctx context.Context, r *leader.Term, to int64) (int64, error) {
	n.measureClocks(ctx)
	switch {
	case to == 0 && !n.clocksAgree():
		return 0, errors.New("the wall clocks of a majority do not agree within 1s: set them right first (NTP), or give the time with --set")
	case to == 0:
		to = n.wall().UnixMilli()
	case !n.clocks.reached(n.cfg.Clock(), time.UnixMilli(to)):
		return 0, fmt.Errorf("--set %s: no majority of the wall clocks has reached this time; the leader's is at %s: check the time, and the clocks (osqueue cluster clock)",
			isoTime(to), isoTime(n.cfg.Clock().UnixMilli()))
	}
	now := r.Now()
	switch ahead := time.Duration(now-to) * time.Millisecond; {
	case ahead <= 0:
		return 0, fmt.Errorf("the queue's time is %s, which is not after %s: it can only be set back", isoTime(now), isoTime(to))
	case ahead < setClockFloor:
		return 0, fmt.Errorf("the queue's time is only %v ahead: the leader's clock corrects that by itself", ahead)
	}
	return to, nil
}

func isoTime(ms int64) string { return time.UnixMilli(ms).UTC().Format(time.RFC3339Nano) }

// reached reports whether a majority of the voters' clocks are at t or later, within
// clockBound. own is the reading of this node's clock.
func (c *clocks) reached(own, t time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	count := 0
	if c.self && !t.After(own.Add(clockBound)) {
		count++
	}
	for _, r := range c.seen {
		if time.Since(r.at) < clockFresh && !t.After(own.Add(r.offset(own)+clockBound)) {
			count++
		}
	}
	return count > c.voters/2
}

// applySetClock sets the time back, if that was requested, answers the request, and
// reports whether it was done. No write is proposed while it runs.
func (n *Node) applySetClock(ctx context.Context) (done bool) {
	req := n.setClock.Swap(nil)
	if req == nil || req.ctx.Err() != nil {
		return false
	}
	var a setClockAnswer
	a.set, a.err = n.proposeSetClock(ctx, req)
	if a.err != nil {
		n.log.Error("the queue's time was not set back", "reason", a.err)
	} else {
		n.log.Warn("the queue's time was set back", "by", time.Duration(a.set.By)*time.Millisecond, "to", time.UnixMilli(a.set.Now).UTC(), "repeated", a.set.Repeated)
	}
	req.done <- a
	return a.err == nil
}

// proposeSetClock commits the SetClock. The machine takes time in proportion to the size
// of the queue for it, on every node.
func (n *Node) proposeSetClock(ctx context.Context, req *setClockRequest) (ClockSet, error) {
	v := n.replica.freeze()
	before := v.Meta().Now
	op := &fsmpb.SetClock{ToMs: max(req.to, 1), Next: nextTimes(v, req.to)}
	results, err := n.leader.Apply(ctx, op.ToMs, &fsmpb.Mutation{Op: &fsmpb.Mutation_SetClock{SetClock: op}, Request: req.req})
	if err != nil {
		return ClockSet{}, err
	}
	switch res := &results[0]; {
	case res.Code == fsm.Duplicate && !res.LSN.IsZero():
		return ClockSet{By: res.Count, Repeated: true}, nil
	case res.Code != fsm.OK:
		return ClockSet{}, fmt.Errorf("the state machine refused it: %s", res.Code)
	default:
		return ClockSet{Before: before, Now: op.ToMs, By: res.Count}, nil
	}
}

// nextTimes returns the next times after now of all schedules that this version can read,
// one for each spec and time zone.
func nextTimes(v *fsm.View, now int64) []*fsmpb.NextTime {
	var next []*fsmpb.NextTime
	seen := make(map[[2]string]bool)
	v.Crons("", func(c *fsm.Cron) bool {
		id := [2]string{c.Spec, c.TimeZone}
		if s, err := crontab.Parse(c.Spec, c.TimeZone); err == nil && !seen[id] {
			next = append(next, &fsmpb.NextTime{Spec: c.Spec, TimeZone: c.TimeZone, NextMs: s.Next(now)})
		}
		seen[id] = true
		return true
	})
	return next
}

// setClockPatience bounds one request: a large state takes a while.
const setClockPatience = 5 * time.Minute

// serveSetClock serves POST clock/set, a request of an operator's tool.
func (n *Node) serveSetClock(w http.ResponseWriter, r *http.Request) {
	var req ClockRequest
	if err := json.NewDecoder(io.LimitReader(r.Body, membership.BodyMax)).Decode(&req); err != nil {
		peeranswer.Write(w, http.StatusBadRequest, peeranswer.Refusal{Message: err.Error()})
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), setClockPatience)
	defer cancel()
	set, err := n.SetClock(ctx, req)
	n.answerOperator(w, set, err)
}

// answerOperator answers the request of an operator.
func (n *Node) answerOperator(w http.ResponseWriter, answer any, err error) {
	switch {
	case err == nil:
		peeranswer.Write(w, http.StatusOK, answer)
	case errors.Is(err, ErrNotLeader):
		peeranswer.Write(w, http.StatusMisdirectedRequest, peeranswer.Refusal{Message: err.Error(), Leader: n.members.LeaderHTTP()})
	case errors.Is(err, ErrUnknown):
		peeranswer.Write(w, http.StatusServiceUnavailable, peeranswer.Refusal{Message: err.Error()})
	default:
		peeranswer.Write(w, http.StatusConflict, peeranswer.Refusal{Message: err.Error()})
	}
}

// AskToSetClock asks the node with the base URL server, which must be the active leader, to set
// the queue's time back. again reports whether the request may be repeated, at the leader,
// because it was not answered or is not decided.
func AskToSetClock(ctx context.Context, client *http.Client, server string, c ClockRequest) (set ClockSet, again bool, err error) {
	again, err = askOperation(ctx, client, server+ClockPath, c, &set)
	return set, again, err
}

// askOperation sends the request of an operator to a node, and decodes its answer. again reports
// whether the request may be repeated.
func askOperation(ctx context.Context, client *http.Client, url string, in, out any) (again bool, err error) {
	body, err := json.Marshal(in)
	if err != nil {
		return false, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, bytes.NewReader(body))
	if err != nil {
		return false, err
	}
	resp, err := client.Do(req)
	if err != nil {
		return true, err
	}
	defer resp.Body.Close()
	body, err = io.ReadAll(io.LimitReader(resp.Body, membership.BodyMax))
	switch {
	case err != nil:
		return true, err
	case resp.StatusCode != http.StatusOK:
		again = resp.StatusCode == http.StatusMisdirectedRequest || resp.StatusCode == http.StatusServiceUnavailable
		return again, membership.Refused(url, resp.Status, body)
	}
	return false, json.Unmarshal(body, out)
}
