package inbox

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v5"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// rejection is a file that the queue does not take.
type rejection struct {
	letter
	reason error
}

// Reason is what inbox-rejected/<id>.reason.json holds.
type Reason struct {
	Reason string `json:"reason"`
	At     int64  `json:"at"`  // when it was rejected, ms
	Key    string `json:"key"` // where the file was
}

// rejectTries is how often each write is tried before the round ends.
const rejectTries = 3

// rejectAll moves files out of the box.
func (r *reign) rejectAll(ctx context.Context, all []rejection) outcome {
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

// reject moves a file out of the box: first it is copied, with the reason, then
// removed. Done again, by anybody, it changes nothing more.
func (r *reign) reject(ctx context.Context, x rejection) error {
	stem, created, err := r.copyRejected(ctx, x)
	if err != nil {
		return fmt.Errorf("keep the rejected file %s: %w", x.key(), err)
	}
	if err := r.explain(ctx, stem, x); err != nil {
		return fmt.Errorf("keep the reason for which %s was rejected: %w", x.key(), err)
	}
	if created {
		r.count(func(s *Stats) { s.Rejected++ })
	}
	r.cfg.Log.Warn("a file in the drop box is rejected", "id", x.id, "reason", x.reason, "moved_to", RejectedPrefix+stem+suffix)
	if err := r.remove(ctx, x.file); err != nil {
		return err
	}
	delete(r.held, x.id)
	return nil
}

// copyRejected keeps the bytes, under another name if the first one is taken.
func (r *reign) copyRejected(ctx context.Context, x rejection) (stem string, created bool, err error) {
	for _, other := range []bool{false, true} {
		stem = rejectedStem(x.id, x.data, other)
		created, err = put(ctx, r.cfg.Bucket, RejectedPrefix+stem+suffix, x.data, backoff.WithMaxTries(rejectTries))
		if !errors.Is(err, ErrTaken) {
			break
		}
	}
	return stem, created, err
}

// explain keeps the reason. One that is there is of an earlier attempt, and stays.
func (r *reign) explain(ctx context.Context, stem string, x rejection) error {
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

// remove takes a file out of the box.
func (r *reign) remove(ctx context.Context, f file) error {
	if err := r.cfg.Bucket.Delete(ctx, f.key()); err != nil {
		return fmt.Errorf("remove %s: %w", f.key(), err)
	}
	r.count(func(s *Stats) { s.Waiting = max(s.Waiting-1, 0) })
	return nil
}
