package workload

import (
	"context"
	"errors"
	"fmt"
	"net/http/httptrace"
	"sync"
	"sync/atomic"

	"osqueue/client"
	v1 "osqueue/client/api/v1"
	"osqueue/tests/history"
)

// write makes one write of a client and records it. call reads its answer into the operation,
// and its error decides the outcome.
func (l *Load) write(ctx context.Context, a *actor, op history.Op, call func(context.Context, *history.Op) error) history.Op {
	op.Client, op.Request = a.name, client.NewID()
	op = l.rec.Begin(op)
	ctx = client.WithIdempotencyKey(ctx, op.Request)
	if op.Ack != "" {
		ctx = client.WithAck(ctx, client.Ack(op.Ack))
	}
	var r client.Receipt
	ctx, overHTTP := noteHTTP(ctx)
	l.judge(&op, call(client.WithReceipt(ctx, &r), &op))
	op.Protocol = protocolOf(op.Outcome, overHTTP.Load())
	if op.Outcome == history.OK {
		l.noteLSN(&op, r.LSN())
		op.Committed = string(r.Committed())
	}
	l.rec.Op(op)
	return op
}

// noteHTTP returns a context whose HTTP requests set sent. A call that uses only a stream sends
// none: the client opens its streams apart from the calls.
func noteHTTP(ctx context.Context) (_ context.Context, sent *atomic.Bool) {
	sent = new(atomic.Bool)
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{WroteHeaders: func() { sent.Store(true) }}), sent
}

// protocolOf returns what carried a successful operation; "" for any other one, which may not
// have been sent.
func protocolOf(o history.Outcome, overHTTP bool) string {
	switch {
	case o != history.OK:
		return ""
	case overHTTP:
		return history.ProtocolHTTP
	default:
		return history.ProtocolStream
	}
}

// noteLSN records the LSN of an answer.
func (l *Load) noteLSN(op *history.Op, text string) {
	lsn, err := history.ParseLSN(text)
	if err != nil {
		l.fault(fmt.Errorf("operation %d: %w", op.ID, err))
	}
	if op.LSN = lsn; !lsn.IsZero() {
		l.known.lsn(lsn)
	}
}

// judge derives the outcome from the error.
func (l *Load) judge(op *history.Op, err error) {
	if err == nil {
		op.Outcome = history.OK
		l.answered.Add(1)
		return
	}
	op.Outcome, op.Error = history.Unknown, err.Error()
	var e *client.Error
	if !errors.As(err, &e) {
		return
	}
	if e.Committed == client.CommittedNo {
		op.Outcome, op.Tag = history.Refused, e.Tag
	}
	if wrong(e.Tag) {
		l.fault(fmt.Errorf("operation %d (%s of %s): %w", op.ID, op.Kind, op.Client, err))
	}
	if e.Refused() {
		l.answered.Add(1)
	}
}

// wrong reports whether a correct client never gets the tag.
func wrong(tag string) bool {
	switch tag {
	case v1.TagBadRequest, v1.TagUnknownMember, v1.TagRequestConflict, v1.TagIDTaken, v1.TagInternal, v1.TagNoRoute,
		v1.TagMethod, v1.TagNoID, v1.TagWrongWorker:
		return true
	}
	return false
}

// knownMax bounds the jobs and LSNs that are remembered for others.
const knownMax = 256

// known is the clients' shared knowledge of each other's work. The zero value is ready to use.
type known struct {
	mu   sync.Mutex
	jobs []string
	lsns []history.LSN
	next int
	seen int
}

func (k *known) job(id string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.jobs) < knownMax {
		k.jobs = append(k.jobs, id)
		return
	}
	k.jobs[k.next%knownMax] = id
	k.next++
}

func (k *known) lsn(l history.LSN) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.lsns) < knownMax {
		k.lsns = append(k.lsns, l)
		return
	}
	k.lsns[k.seen%knownMax] = l
	k.seen++
}

// youngest returns the job that was enqueued last; "" while there is none.
func (k *known) youngest() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.jobs) == 0 {
		return ""
	}
	return k.jobs[(k.next+len(k.jobs)-1)%len(k.jobs)]
}

// one returns one of the youngest jobs; "" while there are none.
func (k *known) one(a *actor) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.jobs) == 0 {
		return ""
	}
	return k.jobs[a.rng.IntN(len(k.jobs))]
}

// any returns one of the youngest jobs and LSNs; ok is false while there are none.
func (k *known) any(a *actor) (job string, lsn history.LSN, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.jobs) == 0 || len(k.lsns) == 0 {
		return "", history.LSN{}, false
	}
	return k.jobs[a.rng.IntN(len(k.jobs))], k.lsns[a.rng.IntN(len(k.lsns))], true
}
