package inbox

import (
	"context"
	"fmt"
	"strings"

	"github.com/cenkalti/backoff/v5"

	"osqueue/storage"
)

// A file that is in the queue and cannot be removed must not be taken again, even if the
// machine has forgotten its request and its job. The leader remembers it, and puts a mark
// into the bucket for later leaders. It removes the mark when the file no longer exists. If
// there are too many such files to remember, the inbox takes no more files, which is the
// safe side.

// stuckTries is the number of files whose failed removal is tried again in a round.
const stuckTries = 10

func markKey(id string) string { return takenPrefix + id + suffix }

// mark writes the mark of a file.
func (r *leaderTerm) mark(ctx context.Context, id string) error {
	_, err := put(ctx, r.cfg.Bucket, markKey(id), []byte("{}\n"), backoff.WithMaxTries(rejectTries))
	if err != nil {
		return fmt.Errorf("mark %s as taken: %w", file{id: id}.key(), err)
	}
	return nil
}

// readMarks reads the marks, once in a leader term.
func (r *leaderTerm) readMarks(ctx context.Context) error {
	if r.stuck != nil {
		return nil
	}
	stuck := make(map[string]struct{})
	err := r.cfg.Bucket.List(ctx, takenPrefix, func(o storage.Info) bool {
		if id, ok := strings.CutSuffix(strings.TrimPrefix(o.Key, takenPrefix), suffix); ok {
			stuck[id] = struct{}{}
		}
		return true
	})
	if err != nil {
		return fmt.Errorf("list the marks of the inbox: %w", err)
	}
	r.stuck = stuck
	return nil
}

// unstick tries to remove some of the files whose removal failed, and forgets those that do
// not exist any more.
func (r *leaderTerm) unstick(ctx context.Context, l *look) {
	tries := stuckTries
	for id := range r.stuck {
		switch {
		case l.stuck[id] && tries == 0, !l.stuck[id] && l.more:
			continue
		case l.stuck[id]:
			tries--
			if r.remove(ctx, file{id: id}) != nil {
				continue
			}
		}
		if r.cfg.Bucket.Delete(ctx, markKey(id)) == nil {
			delete(r.stuck, id)
		}
	}
}

// stuckError returns an error if there are files that could not be removed, and nil
// otherwise.
func (r *leaderTerm) stuckError() error {
	for id := range r.stuck {
		err := fmt.Errorf("cannot remove %d files whose jobs are in the queue, such as %s: allow the nodes to delete "+
			"objects below %s",
			len(r.stuck), file{id: id}.key(), Prefix)
		if len(r.stuck) >= r.bounds.stuck {
			err = fmt.Errorf("the inbox is stopped: %w", err)
		}
		return err
	}
	return nil
}
