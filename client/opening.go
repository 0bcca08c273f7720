package client

import (
	"context"
	"encoding/json"
	"strings"
	"sync"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
)

// opener decrypts the parts of one job, and keeps the first error.
type opener struct {
	c   *caller
	ctx context.Context // it lives as long as one call
	id  string
	err error
}

// fail records that a part cannot be read.
func (o *opener) fail(what string, err error) {
	if o.err == nil {
		o.err = &SealError{JobID: o.id, What: what, Err: err}
	}
}

// decrypt returns the plaintext, or ok == false.
func (o *opener) decrypt(what string, sealed, binding []byte) (plain []byte, ok bool) {
	if o.c.cfg.Cipher == nil {
		o.fail(what, ErrNoCipher)
		return nil, false
	}
	plain, err := o.c.cfg.Cipher.DecryptWithContext(o.ctx, sealed, binding)
	if err != nil {
		o.fail(what, err)
		return nil, false
	}
	return plain, true
}

// payload returns the plaintext of a payload, or the payload itself if it cannot be read.
func (o *opener) payload(raw json.RawMessage, jobType, cron string) json.RawMessage {
	return o.value(envelope.KindPayload, raw, func(to string) []byte {
		if to == envelope.ToCron {
			return payloadBinding(to, jobType, cron)
		}
		return payloadBinding(to, jobType, o.id)
	})
}

// result is like payload, for a result.
func (o *opener) result(raw json.RawMessage) json.RawMessage {
	return o.value(envelope.KindResult, raw, func(string) []byte { return envelope.Bind(envelope.KindResult, o.id) })
}

// value returns the plaintext of a payload or a result. binding returns the associated data by the field "to".
func (o *opener) value(kind string, raw json.RawMessage, binding func(to string) []byte) json.RawMessage {
	if raw == nil || !envelope.IsJSON(raw) {
		o.plain(kind, raw)
		return raw
	}
	in, err := envelope.ParseJSON(raw)
	if err != nil {
		o.fail(kind, err)
		return raw
	}
	if plain, ok := o.decrypt(kind, in.Ciphertext, binding(in.To)); ok {
		return plain
	}
	return raw
}

// plain records a part that is not encrypted, if only encrypted ones are accepted.
func (o *opener) plain(what string, raw json.RawMessage) {
	if raw != nil && o.c.cfg.SealedOnly {
		o.fail(what, ErrNotSealed)
	}
}

// text returns the plaintext of a text, or the text itself if it is plain or cannot be
// read. Nodes write errors of their own, so plain texts are always accepted.
func (o *opener) text(kind, text string) string {
	if !envelope.IsText(text) {
		return text
	}
	sealed, err := envelope.ParseText(text)
	if err != nil {
		o.fail(kind, err)
		return text
	}
	if plain, ok := o.decrypt(kind, sealed, envelope.Bind(kind, o.id)); ok {
		return string(plain)
	}
	return text
}

// openJob decrypts a job in place. Parts that cannot be read stay as they are, and the
// error, a *SealError, is about the first of them. Without a Cipher it does nothing.
func (c *caller) openJob(ctx context.Context, j *v1.Job) error {
	if c.cfg.Cipher == nil {
		return nil
	}
	o := &opener{c: c, ctx: ctx, id: j.ID}
	j.Payload = o.payload(j.Payload, j.Type, j.Cron)
	j.Result = o.result(j.Result)
	j.LastError = o.text(envelope.KindError, j.LastError)
	j.Log = o.text(envelope.KindLog, j.Log)
	o.kept(j.Steps, j.Signals)
	if j.Progress != nil {
		j.Progress.Message = o.text(envelope.KindProgress, j.Progress.Message)
	}
	for i := range j.ProgressHistory {
		j.ProgressHistory[i].Message = o.text(envelope.KindProgress, j.ProgressHistory[i].Message)
	}
	for i := range j.History {
		j.History[i].Error = o.text(envelope.KindError, j.History[i].Error)
	}
	return o.err
}

// openRead is openJob with a bound on the time, for the end of a call that has its answer.
func (c *caller) openRead(ctx context.Context, j *v1.Job) error {
	if c.cfg.Cipher == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	return c.openJob(ctx, j)
}

// openJobs decrypts the jobs of a list as far as possible.
func (c *caller) openJobs(ctx context.Context, jobs []v1.Job) {
	if c.cfg.Cipher == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	_ = inParallel(len(jobs), func(i int) error { return c.openJob(ctx, &jobs[i]) }) // what cannot be read stays encrypted
}

// claimed converts claimed jobs, and decrypts them. The jobs are leased, so decryption
// may take as long as one attempt of a call.
func (c *caller) claimed(ctx context.Context, in []v1.ClaimedJob, worker string) []ClaimedJob {
	jobs := make([]ClaimedJob, len(in))
	for i, j := range in {
		jobs[i] = claimedJob(j, worker)
	}
	if c.cfg.Cipher != nil {
		limited, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
		defer cancel()
		ctx = limited
	}
	_ = inParallel(len(jobs), func(i int) error { // every job has its own error
		j := &jobs[i]
		o := &opener{c: c, ctx: ctx, id: j.ID}
		j.Payload = o.payload(j.Payload, j.Type, j.Cron)
		o.kept(j.Steps, j.Signals)
		j.OpenErr = o.err
		for k, p := range j.Parents { // the handler may do without one that cannot be read
			of := &opener{c: c, ctx: ctx, id: p.JobID}
			j.Parents[k].Result = of.result(p.Result)
		}
		if c.cfg.Cipher != nil {
			j.LastError = o.text(envelope.KindError, j.LastError)
		}
		return nil
	})
	return jobs
}

// openEvent decrypts the texts of an event about a job as far as possible.
func (c *caller) openEvent(ctx context.Context, ev *v1.Event) {
	if c.cfg.Cipher == nil || ev.JobID == "" || !envelope.IsText(ev.Error) && !envelope.IsText(ev.Message) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout)
	defer cancel()
	o := &opener{c: c, ctx: ctx, id: ev.JobID}
	ev.Error = o.text(envelope.KindError, ev.Error)
	ev.Message = o.text(envelope.KindProgress, ev.Message)
}

// sealers is how many texts of one call are encrypted or decrypted at once: a key
// management service takes milliseconds for each.
const sealers = 16

// inParallel calls f for 0 to n-1 and returns the error of the lowest number.
func inParallel(n int, f func(i int) error) error {
	if n <= 1 {
		if n == 1 {
			return f(0)
		}
		return nil
	}
	errs := make([]error, n)
	var tasks sync.WaitGroup
	for first := range min(n, sealers) {
		tasks.Go(func() {
			for i := first; i < n; i += sealers {
				errs[i] = f(i)
			}
		})
	}
	tasks.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// cutText removes n bytes, and the rest of a rune, from a text: from the beginning of a
// log, else from the end.
func cutText(kind, text string, n int) string {
	if kind == envelope.KindLog {
		return "…" + strings.ToValidUTF8(text[n:], "")
	}
	return strings.ToValidUTF8(text[:len(text)-n], "") + "…"
}
