package core

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "osqueue/client/api/v1"
	"osqueue/cluster"
	"osqueue/fsm"
)

// Ack levels: a write is answered when a majority of the nodes has it on disk, or when the
// document in the bucket has it too. The second level is a wait after the first, with a timeout
// of the caller. It cannot fail: the write is committed by then, and the answer only says which
// level it has reached.

// ack is the requested durability of a write at the time of its answer.
type ack struct {
	object bool          // in the bucket; else on a majority of the nodes
	wait   time.Duration // for the bucket, at most
}

// Patience is the additional time that the write may take.
func (a ack) Patience() time.Duration {
	if !a.object {
		return 0
	}
	return a.wait
}

func IsAck(level string) bool { return level == v1.AckQuorum || level == v1.AckObject }

// readAck reads the requested durability of the write.
func (c *Call) readAck() (err error) {
	level := c.Core.Config.Ack
	if given := c.Params.Get(v1.ParamAck); given != "" {
		if level = given; !IsAck(level) {
			return Fail(BadRequest, "%s is %q; must be %s or %s", v1.ParamAck, Shown(given), v1.AckQuorum, v1.AckObject)
		}
	}
	c.Ack.object = level == v1.AckObject
	if c.Ack.object && c.Route.At == LeaderOnly {
		// Every bucket has the zero LSN, so this fails only if the archive is damaged.
		if err := c.Core.Node.WaitFlushed(c.Context(), fsm.LSN{}); errors.Is(err, cluster.ErrArchive) {
			return err
		}
	}
	c.Ack.wait, err = c.readAckWait()
	return err
}

// readAckWait returns the time for which the caller waits for the bucket.
func (c *Call) readAckWait() (time.Duration, error) {
	if text := c.Params.Get(v1.ParamAckWaitMs); text != "" {
		return c.Core.WaitParam(v1.ParamAckWaitMs, text)
	}
	if !c.Ack.object {
		return 0, nil
	}
	// By RFC 7240 an invalid preference is ignored.
	if seconds, err := strconv.ParseUint(preference(c.Prefer, "wait"), 10, 31); err == nil {
		return c.Core.BoundedWait(int64(seconds) * time.Second.Milliseconds()), nil
	}
	return c.Core.Config.Timeouts.Object, nil
}

// Settle waits until the write has the durability that the caller requested, and states the
// reached durability in the answer. If nothing was written, settle does nothing.
func (c *Call) Settle() {
	if c.Route.At != LeaderOnly || c.Lsn.IsZero() {
		return
	}
	c.Held.Give(c.decoded)
	c.decoded = 0
	level := v1.AckQuorum
	if c.Ack.object {
		if c.awaitBucket() {
			level = v1.AckObject
		}
		c.Core.Metrics.objectAcks.WithLabelValues(level).Inc()
	}
	c.Committed = level
}

// awaitBucket reports whether the write has reached the bucket in time. The wait also ends with
// the request and with the server.
func (c *Call) awaitBucket() bool {
	c.HoldOff(c.Ack.wait)
	ctx, cancel := c.Core.Patience(c, c.Ack.wait)
	defer cancel()
	return c.Core.Node.WaitFlushed(ctx, c.Lsn) == nil
}

// withoutAck returns a query without the parameters that request a durability.
func withoutAck(query string) string {
	if !strings.Contains(query, v1.ParamAck) {
		return query
	}
	parts := strings.Split(query, "&")
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool {
		name, _, _ := strings.Cut(part, "=")
		return slices.Contains(WriteParams, name)
	}), "&")
}

// Send answers 200 with c.out.
func (c *Call) Send() error {
	c.Settle()
	return c.SendSettled()
}

// SendSettled is send after settle, for answers that contain the time.
func (c *Call) SendSettled() error {
	err := c.begin()
	c.Ready = err == nil
	return err
}
