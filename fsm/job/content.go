package job

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"osqueue/fsm/fsmpb"
)

// Content is a hash of the request that made a job.
type Content [16]byte

// ContentOf returns a hash of the request that made j, also if j was edited since: the job of another request with the same
// id has another one. RunAt does not count, because it may come from a delay and changes at
// retries; nor do the headers and the schedule that enqueued the job. The state has the hashes of
// removed jobs.
func ContentOf(j *Job) (made Content) {
	if copy(made[:], j.Details().Content) > 0 {
		return made
	}
	return hashOf(j.Type, j.Priority, j.MaxAttempts, j.Execution().LeaseMs, j.Payload(), j.Options())
}

// ContentOfNew is ContentOf for a job that is to be added.
func ContentOfNew(n *fsmpb.NewJob) Content {
	return hashOf(n.Type, n.Priority, AttemptsOf(n.MaxAttempts), n.LeaseMs, n.Payload, cmp.Or(NewOptions(n, ""), &NoOptions))
}

func hashOf(typ string, priority, maxAttempts int32, leaseMs int64, payload []byte, o *Options) Content {
	h := make([]byte, 0, 512) // on the stack
	text := func(s string) { h = append(binary.AppendUvarint(h, uint64(len(s))), s...) }
	texts := func(list []string) {
		h = binary.AppendUvarint(h, uint64(len(list)))
		for _, s := range list {
			text(s)
		}
	}
	numbers := func(list ...int64) {
		for _, n := range list {
			h = binary.AppendVarint(h, n)
		}
	}
	there := int64(0)
	if payload != nil {
		there = 1
	}
	numbers(int64(priority), int64(maxAttempts), leaseMs, there, int64(len(payload)))
	h = append(h, payload...)
	numbers(int64(o.Backoff.Kind), o.Backoff.BaseMs, o.Backoff.CapMs, int64(o.Backoff.Jitter), o.TimeoutMs,
		int64(o.Unique.Scope), o.Unique.PeriodMs, int64(o.AfterFailure))
	for _, s := range []string{typ, o.Group, o.Unique.Key, o.Batch, o.Sequence} {
		text(s)
	}
	texts(o.Tags)
	texts(o.After)
	texts(o.Limits)
	texts(o.AfterNames)
	texts(o.AfterBatches)
	text(o.Step)
	numbers(o.RetainMs)
	for _, r := range o.OnError {
		text(r.Class)
		numbers(r.DelayMs)
		h = strconv.AppendBool(h, r.Dead)
	}
	sum := sha256.Sum256(h)
	return Content(sum[:16])
}
