package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rejection is a file that the queue does not accept, with the reason.
type rejection struct {
	letter
	reason error
}

// Reason is the content of inbox-rejected/<id>.reason.json.
type Reason struct {
	Reason string `json:"reason"`
	At     int64  `json:"at"`  // time of the rejection, ms
	Key    string `json:"key"` // original key of the file
}

// rejectTries is the number of attempts of each write before the round ends.
const rejectTries = 3

// rejectAll moves files out of the inbox.
func (r *leaderTerm) rejectAll(ctx context.Context, all []rejection) outcome {
	var o outcome
	for _, x := range all {
		if err := r.reject(ctx, x); err != nil {
			o.add(r.failed(x.file, err))
		} else {
			o.done++
		}
		if len(o.failures) >= failuresMax || ctx.Err() != nil {
			break
		}
	}
	return o
}

// reject moves a file out of the inbox: it writes a copy and the reason, and then removes
// the file. It is idempotent, also if another leader repeats it.
func (r *leaderTerm) reject(ctx context.Context, x rejection) error {
	stem, created, err := r.copyRejected(ctx, x)
	if err != nil {
		return fmt.Errorf("keep the rejected file %s: %w", x.key(), err)
	}
	if err := r.explain(ctx, stem, x); err != nil {
		return fmt.Errorf("write the reason for rejecting %s: %w", x.key(), err)
	}
	if created {
		r.count(func(s *Stats) { s.Rejected++ })
	}
	r.cfg.Log.Warn("rejected a file in the inbox", "id", x.id, "reason", x.reason, "moved_to", RejectedPrefix+stem+suffix)
	if err := r.remove(ctx, x.file); err != nil {
		return err
	}
	delete(r.held, x.id)
	return nil
}

// copyRejected writes the copy, under the second name if the first one has other bytes.
func (r *leaderTerm) copyRejected(ctx context.Context, x rejection) (stem string, created bool, err error) {
	for _, other := range []bool{false, true} {
		stem = rejectedStem(x.id, x.data, other)
		created, err = put(ctx, r.cfg.Bucket, RejectedPrefix+stem+suffix, x.data, backoff.WithMaxTries(rejectTries))
		if !errors.Is(err, ErrTaken) {
			break
		}
	}
	return stem, created, err
}

// explain writes the reason. An existing reason comes from an earlier attempt, and stays.
func (r *leaderTerm) explain(ctx context.Context, stem string, x rejection) error {
	text, err := json.Marshal(Reason{
		Reason: x.reason.Error(), At: r.cfg.Now().UnixMilli(), Key: x.key(),
	}, jsontext.AllowInvalidUTF8(true), jsontext.Multiline(true))
	if err != nil {
		return err
	}
	_, err = put(ctx, r.cfg.Bucket, RejectedPrefix+stem+reasonSuffix, append(text, '\n'), backoff.WithMaxTries(rejectTries))
	if errors.Is(err, ErrTaken) {
		return nil
	}
	return err
}

// remove removes a file from the inbox.
func (r *leaderTerm) remove(ctx context.Context, f file) error {
	if err := r.cfg.Bucket.Delete(ctx, f.key()); err != nil {
		return fmt.Errorf("remove %s: %w", f.key(), err)
	}
	r.count(func(s *Stats) { s.Waiting = max(s.Waiting-1, 0) })
	return nil
}
