package inbox

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"osqueue/fsm"
)

// settle waits until the jobs that were taken are in the bucket, and removes their files.
// If a removal fails, it marks the file, so that no leader takes it again.
func (r *leaderTerm) settle(ctx context.Context) error {
	if len(r.taken) == 0 {
		return nil
	}
	newest := slices.MaxFunc(slices.Collect(maps.Values(r.taken)), fsm.LSN.Compare)
	if err := r.queue.WaitFlushed(ctx, newest); err != nil {
		return fmt.Errorf("wait until the jobs are in the bucket: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(r.bounds.parallel)
	var mu sync.Mutex
	for id := range r.taken {
		group.Go(func() error {
			err := r.remove(ctx, file{id: id})
			if err == nil {
				return nil
			}
			mu.Lock()
			r.stuck[id] = struct{}{}
			mu.Unlock()
			return errors.Join(err, r.mark(ctx, id))
		})
	}
	clear(r.taken)
	return group.Wait()
}
