package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	v1 "osqueue/client/api/v1"
	"osqueue/client/internal/envelope"
)

// Cipher encrypts what only producers and workers may read. Package seal makes one of a
// file with keys, or of a key management service; every tink.AEADWithContext is one.
//
// Both methods authenticate the associated data together with the text, return soon after
// ctx ends, and are safe for concurrent use. DecryptWithContext returns an error that
// wraps ErrTampered if the text is not what was encrypted, and one that wraps ErrNoKey if
// the key is missing here; other errors count as temporary.
type Cipher interface {
	// EncryptWithContext returns the ciphertext of plaintext.
	EncryptWithContext(ctx context.Context, plaintext, associatedData []byte) ([]byte, error)
	// DecryptWithContext returns the plaintext of ciphertext, which was encrypted with the same
	// associated data.
	DecryptWithContext(ctx context.Context, ciphertext, associatedData []byte) ([]byte, error)
}

// The reasons why an encrypted text cannot be read.
var (
	// ErrNoCipher means that Config.Cipher is not set.
	ErrNoCipher = errors.New("it is encrypted, and this client has no keys (Config.Cipher)")
	// ErrNoKey means that the key of the text is not among the configured ones.
	ErrNoKey = errors.New("this client does not have the key with which it is encrypted")
	// ErrTampered means that the text was changed, cut, or moved from another job.
	ErrTampered = errors.New("it was changed after its encryption, or belongs to another job")
	// ErrNotSealed means that a payload or result is not encrypted, although
	// Config.SealedOnly demands it.
	ErrNotSealed = errors.New("it is not encrypted, and this client accepts only encrypted ones (Config.SealedOnly)")
)

// A SealError is the error for a part of a job that cannot be decrypted. It wraps one of
// the errors above, or the error of the Cipher.
type SealError struct {
	JobID string
	What  string // "payload", "result", "error", "log" or "progress"
	Err   error
}

// Error returns what cannot be decrypted, and why.
func (e *SealError) Error() string {
	return fmt.Sprintf("the %s of job %s cannot be read: %v", e.What, e.JobID, e.Err)
}

// Unwrap returns Err.
func (e *SealError) Unwrap() error { return e.Err }

// Lasting reports whether the text can be read nowhere, with whatever keys.
func (e *SealError) Lasting() bool {
	return errors.Is(e.Err, ErrTampered) || errors.Is(e.Err, ErrNotSealed) || errors.Is(e.Err, envelope.ErrDamaged)
}

// IsSealed reports whether a payload or a result is encrypted.
func IsSealed(raw json.RawMessage) bool { return envelope.IsJSON(raw) }

// IsSealedText reports whether an error, a log or a message of progress is encrypted.
func IsSealedText(text string) bool { return envelope.IsText(text) }

// Seal returns a copy of the job with its payload encrypted, for a job that does not pass
// through a Client with Config.Cipher. The job must have its id and type.
func Seal(ctx context.Context, with Cipher, job NewJob) (NewJob, error) {
	if job.ID == "" {
		return job, errNoID
	}
	return sealPayload(ctx, with, job, envelope.ToJob, job.ID)
}

// sealPayload encrypts the payload of a job for an id of the kind to.
func sealPayload(ctx context.Context, with Cipher, job NewJob, to, id string) (NewJob, error) {
	if with == nil || job.Payload == nil {
		return job, nil
	}
	if len(job.UniqueFields) > 0 { // the server cannot read them
		key, err := v1.UniqueKey(job.Payload, job.UniqueFields)
		if err != nil {
			return job, fmt.Errorf("uniqueFields %w", err)
		}
		job.Unique.Key, job.UniqueFields = key, nil
	}
	if !v1.ValidJSON(job.Payload) {
		return job, fmt.Errorf("payload %w", errRaw)
	}
	sealed, err := with.EncryptWithContext(ctx, job.Payload, payloadBinding(to, job.Type, id))
	if err != nil {
		return job, fmt.Errorf("encrypt the payload: %w", err)
	}
	job.Payload = envelope.JSON(to, sealed)
	return job, nil
}

func payloadBinding(to, jobType, id string) []byte {
	return envelope.Bind(envelope.KindPayload, to, jobType, id)
}

// sealJob encrypts the payload of a job that has its id.
func (c *caller) sealJob(ctx context.Context, job NewJob) (NewJob, error) {
	return sealPayload(ctx, c.cfg.Cipher, job, envelope.ToJob, job.ID)
}

// sealJobs returns the jobs with their payloads encrypted.
func (c *caller) sealJobs(ctx context.Context, jobs []NewJob) ([]NewJob, error) {
	if c.cfg.Cipher == nil || len(jobs) == 0 {
		return jobs, nil
	}
	out := make([]NewJob, len(jobs))
	return out, inParallel(len(jobs), func(i int) (err error) {
		if out[i], err = c.sealJob(ctx, jobs[i]); err != nil {
			return fmt.Errorf("jobs[%d]: %w", i, err)
		}
		return nil
	})
}

// sealResult encrypts the result of a job. The error is one of a call that was not sent.
func (c *caller) sealResult(ctx context.Context, id string, result json.RawMessage) (json.RawMessage, error) {
	if c.cfg.Cipher == nil || result == nil {
		return result, nil
	}
	if !v1.ValidJSON(result) {
		return nil, fmt.Errorf("result %w", errRaw)
	}
	sealed, err := c.cfg.Cipher.EncryptWithContext(ctx, result, envelope.Bind(envelope.KindResult, id))
	if err != nil {
		return nil, &sealingError{what: envelope.KindResult, err: err}
	}
	return envelope.JSON(envelope.ToJob, sealed), nil
}

// The limits of the texts of reports, in bytes. The server cuts or refuses longer ones,
// and a ciphertext that is cut is lost.
const (
	maxErrorText    = 8 << 10
	maxLogText      = 16 << 10
	maxProgressText = 1 << 10
)

// sealText encrypts a text of a report. It cuts the text, so that the ciphertext has at
// most limit bytes: a log at its beginning, other texts at their end.
func (c *caller) sealText(ctx context.Context, kind, id, text string, limit int) (string, error) {
	if c.cfg.Cipher == nil || text == "" {
		return text, nil
	}
	for {
		sealed, err := c.cfg.Cipher.EncryptWithContext(ctx, []byte(text), envelope.Bind(kind, id))
		if err != nil {
			return "", &sealingError{what: kind, err: err}
		}
		out := envelope.Text(sealed)
		over := len(out) - limit
		if over <= 0 {
			return out, nil
		}
		if over = over*3/4 + len("…") + 3; over >= len(text) {
			return "", &sealingError{what: kind, err: errNoSpace}
		}
		text = cutText(kind, text, over)
	}
}

// sealError encrypts the text of a failure.
func (c *caller) sealError(ctx context.Context, id string, f Failure) (string, error) {
	if f.Public {
		return f.Error, nil
	}
	return c.sealText(ctx, envelope.KindError, id, f.Error, maxErrorText)
}

// sealProgress returns the wire form of the progress in a lease, or nil. If its message
// cannot be encrypted, the message is left out: a progress must not cost the lease.
func (c *caller) sealProgress(ctx context.Context, l Lease) *v1.Progress {
	p := l.Progress.wire()
	if p == nil || p.Message == "" || c.cfg.Cipher == nil {
		return p
	}
	ctx, cancel := context.WithTimeout(ctx, c.cfg.AttemptTimeout/2)
	defer cancel()
	text, err := c.sealText(ctx, envelope.KindProgress, l.JobID, p.Message, maxProgressText)
	if err != nil {
		c.cfg.Logger.Warn("sending progress without its message", "job", l.JobID, "error", err)
	}
	p.Message = text
	return p
}

var errNoSpace = errors.New("the size limit leaves no room for an encrypted text")

// sealingError is the error of a report that was not sent because its encryption failed. A
// repetition may succeed.
type sealingError struct {
	what string
	err  error
}

func (e *sealingError) Error() string { return "encrypt the " + e.what + ": " + e.err.Error() }
func (e *sealingError) Unwrap() error { return e.err }

// unsent returns the error of a call that failed before it was sent.
func unsent(op string, err error) error {
	if _, ok := errors.AsType[*sealingError](err); ok {
		return &Error{Op: op, Message: err.Error(), Committed: CommittedNo, Err: err, again: true}
	}
	return local(op, err)
}
