package client

import (
	"context"
	"fmt"
	"maps"
	"net/url"
	"strconv"
	"sync"
	"time"

	v1 "osqueue/client/api/v1"
)

// Ack is an ack level: how durable a write must be before the server
// answers it, or how durable it was when the server answered.
type Ack string

// The ack levels.
const (
	// AckDefault leaves the choice to the server, whose default is AckQuorum.
	AckDefault Ack = ""
	// AckQuorum means that a majority of the nodes has the write on disk.
	AckQuorum Ack = v1.AckQuorum
	// AckObject means that the document in the bucket contains the write, too. The
	// write then survives the loss of every node and disk.
	AckObject Ack = v1.AckObject
)

type ackName struct{}

// WithAck returns a context whose writes ask for the given ack level.
//
// A write that asks for AckObject and does not reach it within Config.AckWait, or
// shortly before ctx ends, still succeeds: it is committed and reaches the bucket
// later. The result of the write, or a Receipt, has the level that it reached.
// WaitLSN waits for the rest.
func WithAck(ctx context.Context, level Ack) context.Context {
	return context.WithValue(ctx, ackName{}, level)
}

// checkAck returns an error if level is not one of the Ack constants.
func checkAck(level Ack) error {
	switch level {
	case AckDefault, AckQuorum, AckObject:
		return nil
	}
	return fmt.Errorf("ack level %q is unknown; use %s or %s", string(level), AckQuorum, AckObject)
}

type receiptName struct{}

// Receipt records the LSN and the level of writes whose results do not contain
// them, for example Complete. Pass it with WithReceipt. The zero value is ready for
// use. It is safe for concurrent use.
type Receipt struct {
	lsn       lsnMark
	mu        sync.Mutex
	committed Ack
}

// WithReceipt returns a context whose writes are recorded in r.
func WithReceipt(ctx context.Context, r *Receipt) context.Context {
	return context.WithValue(ctx, receiptName{}, r)
}

// LSN returns the newest LSN of the writes that succeeded, or "" if there is none.
func (r *Receipt) LSN() string { return r.lsn.String() }

// Committed returns the level that all recorded writes have reached, or AckDefault
// if no write succeeded.
func (r *Receipt) Committed() Ack {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.committed
}

// note records the level of one write. An answer without an LSN wrote nothing. A
// server that does not name a level has reached AckQuorum.
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

// askAck sets the ack level of the call.
func (c *caller) askAck(ctx context.Context, k *call) error {
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

// Bounds of the time that the client asks a server to wait for the bucket.
const (
	// answerShare is the divisor of a time limit: this part of it, at most
	// answerTime, is left for the transfer of the answer.
	answerShare = 10
	answerTime  = 500 * time.Millisecond
)

// within returns a wait that ends before limit does, so that the answer still
// arrives in time.
func within(limit time.Duration) time.Duration {
	return max(limit-min(limit/answerShare, answerTime), 0)
}

// ackWait returns how long the server may wait for the bucket. If the caller leaves
// the level to the server, the server must not wait longer than this client does.
func (c *caller) ackWait(ctx context.Context, k call) time.Duration {
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

// ownWait returns how much longer than other attempts this attempt may take.
func (k call) ownWait() time.Duration {
	if k.ack == AckObject {
		return k.bucket
	}
	return 0
}

// ackQuery returns the query with the ack parameters of the write. It
// names a level only if the caller chose one: the default is the server's.
func (k call) ackQuery() url.Values {
	if k.ack == AckDefault {
		return k.query
	}
	q := url.Values{v1.ParamAck: {string(k.ack)}}
	maps.Copy(q, k.query)
	if k.ack == AckObject {
		q.Set(v1.ParamAckWaitMs, strconv.FormatInt(k.bucket.Milliseconds(), 10))
	}
	return q
}

// prefer returns the value of the Prefer header. Its wait, in whole seconds, bounds
// the wait of a server whose default is AckObject.
func (k call) prefer() string {
	if !k.write || k.ack != AckDefault {
		return v1.PreferStrict
	}
	return v1.PreferStrict + ", wait=" + strconv.FormatInt(int64(k.bucket/time.Second), 10)
}

// acknowledge records the level that a write has reached. If the wait for the
// bucket was cut short, for example by a change of leader, acknowledge asks the new
// leader for the rest of it.
func (c *caller) acknowledge(ctx context.Context, k call, o outcome) {
	if !k.write {
		return
	}
	lsn, level := o.lsn, Ack(o.committed)
	if k.ack == AckObject && level == AckQuorum && o.bucketLeft >= worthWaiting {
		limited, cancel := context.WithTimeout(ctx, o.bucketLeft)
		defer cancel()
		if _, err := c.waitLSN(limited, lsn, AckObject); err == nil {
			level = AckObject
		}
	}
	k.own.note(lsn, level)
	k.given.note(lsn, level)
}

// worthWaiting is the shortest remaining wait for which acknowledge sends another
// request.
const worthWaiting = 100 * time.Millisecond
