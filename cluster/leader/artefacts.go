package leader

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/fsm/fsmpb"
	"osqueue/internal/sleep"
	"osqueue/storage"
)

// deleteAgain is the time after which the object of an artefact is deleted a second time: an upload whose signed URL was valid at
// the first time may have landed since.
const deleteAgain = time.Hour

// deleteArtefacts deletes the objects of released artefacts, and then their records, every Config.CollectInterval, until ctx ends.
func (t *Term) deleteArtefacts(ctx context.Context) {
	deleted := make(map[string]bool) // by id, in this term
	for sleep.For(ctx, t.cfg.CollectInterval) {
		if t.flusher.Failing() != "" {
			continue
		}
		if err := t.deleteDue(ctx, deleted); err != nil && ctx.Err() == nil {
			t.log.Warn("cannot delete the objects of artefacts; trying again", "error", err)
		}
	}
}

// deleteDue deletes the objects that are due, and notes them in deleted.
func (t *Term) deleteDue(ctx context.Context, deleted map[string]bool) error {
	v := t.do.Freeze()
	once, again := dueArtefacts(v, t.clock.now(), t.cfg.Flush.Window, deleted)
	if len(once)+len(again) == 0 {
		return nil
	}
	if err := t.WaitFlushed(ctx, v.LSN()); err != nil { // or a state that needs them would be the newest one in the bucket
		return err
	}
	last := make(map[string]bool, len(again))
	for _, a := range again {
		last[a.Id] = true
	}
	for some := range slices.Chunk(slices.Concat(once, again), storage.MaxBatch) {
		if ok, err := t.stillAlive(ctx); !ok || err != nil {
			return err
		}
		keys := make([]string, len(some))
		for i, a := range some {
			keys[i] = artefacts.Key(a)
		}
		failed := storage.DeleteAll(ctx, t.cfg.Bucket, keys)
		drop := new(fsmpb.DropArtefacts)
		for i, a := range some {
			switch {
			case failed[keys[i]] != nil:
			case last[a.Id]:
				drop.Ids = append(drop.Ids, a.Id)
				delete(deleted, a.Id)
			default:
				deleted[a.Id] = true
			}
		}
		if len(drop.Ids) > 0 {
			if _, _, err := t.Propose(ctx, []*fsmpb.Mutation{{Op: &fsmpb.Mutation_DropArtefacts{DropArtefacts: drop}}}); err != nil {
				return err
			}
		}
		if len(failed) > 0 {
			return errors.Join(slices.Collect(maps.Values(failed))...)
		}
	}
	return nil
}

// dueArtefacts returns the artefacts whose objects are to be deleted, and those for which it is the last time. One that a job had is
// needed for the window: an earlier state may be restored.
func dueArtefacts(v *fsm.View, now int64, window time.Duration, deleted map[string]bool) (once, again []*fsm.Artefact) {
	v.ReleasedArtefacts(func(a *fsm.Artefact) bool {
		due := a.ReleasedMs
		if a.JobId != "" {
			due += window.Milliseconds()
		}
		switch {
		case due+deleteAgain.Milliseconds() <= now:
			again = append(again, a)
		case due <= now && !deleted[a.Id]:
			once = append(once, a)
		}
		return a.ReleasedMs <= now
	})
	return once, again
}
