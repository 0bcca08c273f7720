package client

import (
	"context"
	"fmt"
	"net/url"
	"strconv"
	"sync"
	"time"

	v1 "osqueue/api/v1"
)

// Ack is how safe a write is: before it is answered, or once it was.
type Ack string

// The ack levels.
const (
	// AckDefault leaves it to the server, whose default is AckQuorum.
	AckDefault Ack = ""
	// AckQuorum: a majority of the nodes has the write on disk.
	AckQuorum Ack = v1.AckQuorum
	// AckObject: the document in the bucket has it, too. It survives the loss of
	// every node and disk.
	AckObject Ack = v1.AckObject
)

type ackName struct{}

// WithAck returns a context whose writes ask for that ack level.
//
// A write that asks for AckObject and does not get it within Config.AckWait, or
// shortly before ctx ends, succeeds all the same: it is done, and comes into the
// bucket later. What it has reached is in its result, or in a Receipt; WaitLSN
// waits on.
func WithAck(ctx context.Context, level Ack) context.Context {
	return context.WithValue(ctx, ackName{}, level)
}

// checkAck finds what no server knows.
func checkAck(level Ack) error {
	switch level {
	case AckDefault, AckQuorum, AckObject:
		return nil
	}
	return fmt.Errorf("%q is no ack level; %s and %s are", string(level), AckQuorum, AckObject)
}

type receiptName struct{}

// Receipt tells how safe writes are whose results do not. The zero value is
// ready; it is safe for concurrent use.
type Receipt struct {
	lsn       lsnMark
	mu        sync.Mutex
	committed Ack
}

// WithReceipt returns a context whose writes are noted in r.
func WithReceipt(ctx context.Context, r *Receipt) context.Context {
	return context.WithValue(ctx, receiptName{}, r)
}

// LSN is the newest LSN of the writes that succeeded; "" if there is none.
func (r *Receipt) LSN() string { return r.lsn.String() }

// Committed is what all of the writes that succeeded have reached; AckDefault if
// there was none.
func (r *Receipt) Committed() Ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// note takes what a write has reached. An answer without LSN wrote nothing; a
// server that does not know of levels knows one.
func (r *Receipt) note(lsn string, level Ack) {
	if r == nil || lsn == "" {
		return
	}
	if level != AckObject {
		level = AckQuorum
	}
	r.lsn.note(lsn)
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.committed != AckQuorum {
		r.committed = level
	}
}

// askAck settles which ack level a write asks for.
func (c *Client) askAck(ctx context.Context, k *call) error {
	if !k.write {
		return nil
	}
	level, given := ctx.Value(ackName{}).(Ack)
	switch {
	case given:
		k.ack, k.passing = level, false
	case !k.passing:
		k.ack = c.cfg.Ack
	}
	k.given, _ = ctx.Value(receiptName{}).(*Receipt)
	return checkAck(k.ack)
}

// Bounds of the time that a server is told to wait for the bucket.
const (
	// answerShare of a time limit is left for the way of the answer, up to
	// answerTime.
	answerShare = 10
	answerTime  = 500 * time.Millisecond
)

// within is a time to wait that ends before the limit does, so that the answer
// still arrives.
func within(limit time.Duration) time.Duration {
	return max(limit-min(limit/answerShare, answerTime), 0)
}

// ackWait is how long the server is to wait for the bucket, if it does. Where
// the caller leaves the level to the server it must not wait for longer than
// this client does.
func (c *Client) ackWait(ctx context.Context, k call) time.Duration {
	var wait time.Duration
	switch {
	case !k.write || k.passing || k.ack == AckQuorum:
		return 0
	case k.ack == AckObject:
		wait = c.cfg.AckWait
	default:
		wait = within(c.cfg.AttemptTimeout)
	}
	if end, ok := ctx.Deadline(); ok {
		wait = min(wait, within(time.Until(end)-k.wait))
	}
	return max(wait, 0)
}

// ownWait is how much longer than others an attempt may take.
func (k call) ownWait() time.Duration {
	if k.ack == AckObject {
		return k.bucket
	}
	return 0
}

// ackQuery adds what the write asks for to its query. The level is only named
// when it is not the server's to choose: older servers do not know the word.
func (k call) ackQuery() url.Values {
	if k.ack == AckDefault {
		return k.query
	}
	q := url.Values{v1.ParamAck: {string(k.ack)}}
	for name, values := range k.query {
		q[name] = values
	}
	if k.ack == AckObject {
		q.Set(v1.ParamAckWaitMs, strconv.FormatInt(k.bucket.Milliseconds(), 10))
	}
	return q
}

// prefer is the header Prefer of the call. Its wait, in whole seconds, bounds
// what the server's own default can cost.
func (k call) prefer() string {
	if !k.write || k.ack != AckDefault {
		return v1.PreferStrict
	}
	return fmt.Sprintf("%s, wait=%d", v1.PreferStrict, k.bucket/time.Second)
}

// acknowledge notes what a write has reached. If its wait for the bucket was cut
// short, as by a change of leader, whoever leads now is asked for what is left.
func (c *Client) acknowledge(ctx context.Context, k call, o outcome) {
	if !k.write {
		return
	}
	lsn, level := o.header.Get(v1.HeaderLSN), Ack(o.header.Get(v1.HeaderCommitted))
	if k.ack == AckObject && level == AckQuorum && o.bucketLeft >= worthWaiting {
		limited, cancel := context.WithTimeout(ctx, o.bucketLeft)
		defer cancel()
		if _, err := c.WaitLSN(limited, lsn, AckObject); err == nil {
			level = AckObject
		}
	}
	k.own.note(lsn, level)
	k.given.note(lsn, level)
}

// worthWaiting is how much has to be left of a wait for it to go on.
const worthWaiting = 100 * time.Millisecond
