package inbox

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"golang.org/x/sync/errgroup"

	"osqueue/fsm"
)

// settle waits until the jobs that were taken are in the bucket, and removes their
// files. A file whose removal failed is looked at anew: it may be another one by
// then, or may go a little later.
func (r *reign) settle(ctx context.Context) error {
	if len(r.taken) == 0 {
		return nil
	}
	newest := slices.MaxFunc(slices.Collect(maps.Values(r.taken)), fsm.LSN.Compare)
	if err := r.cfg.Flushed(ctx, newest); err != nil {
		return fmt.Errorf("wait until the jobs are in the bucket: %w", err)
	}
	var group errgroup.Group
	group.SetLimit(r.bounds.parallel)
	for id := range r.taken {
		group.Go(func() error { return r.remove(ctx, file{id: id}) })
	}
	clear(r.taken)
	return group.Wait()
}
