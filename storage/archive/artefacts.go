package archive

import (
	"context"
	"errors"
	"fmt"

	"github.com/cenkalti/backoff/v5"

	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/storage"
	"osqueue/storage/blob"
)

// artefacts compares the objects of artefacts with a state, by their names and sizes; nil is no state.
func (v *verifier) artefacts(ctx context.Context, m *fsm.Machine) error {
	if m == nil {
		return nil
	}
	known := make(map[string]*fsm.Artefact)
	m.View().AllArtefacts(func(a *fsm.Artefact) bool {
		known[artefacts.Key(a)] = a
		return true
	})
	there := make(map[string]int64)
	err := v.bucket.List(ctx, artefacts.Prefix, func(i storage.Info) bool {
		if known[i.Key] == nil {
			v.report.Unknown = append(v.report.Unknown, i.Key)
		}
		there[i.Key] = i.Size
		return true
	})
	if err != nil {
		return fmt.Errorf("list %q: %w", artefacts.Prefix, err)
	}
	m.View().AllArtefacts(func(a *fsm.Artefact) bool {
		if a.JobId == "" || a.ReleasedMs != 0 {
			return true
		}
		v.report.Artefacts++
		key := artefacts.Key(a)
		switch size, ok := there[key]; {
		case !ok:
			v.note(key, fmt.Errorf("artefact %q of job %q: %w", a.Name, a.JobId, storage.ErrNotFound))
		case size != a.Size:
			v.note(key, fmt.Errorf("artefact %q of job %q has %d bytes; expected %d", a.Name, a.JobId, size, a.Size))
		}
		return true
	})
	return nil
}

// CopyArtefacts copies the objects of the artefacts that jobs of a state have, and those of reservations, to another bucket. What is
// there already stays. copied counts all that to has then, and missing lists the keys of artefacts of jobs that from does not have,
// or has with other bytes.
func CopyArtefacts(ctx context.Context, from, to storage.Bucket, v *fsm.View) (copied int, missing []string, err error) {
	if v.ArtefactCount() == 0 {
		return 0, nil, nil
	}
	there := make(map[string]int64)
	err = to.List(ctx, artefacts.Prefix, func(i storage.Info) bool {
		there[i.Key] = i.Size
		return true
	})
	if err != nil {
		return 0, nil, fmt.Errorf("list %q: %w", artefacts.Prefix, err)
	}
	v.AllArtefacts(func(a *fsm.Artefact) bool {
		key := artefacts.Key(a)
		size, ok := there[key]
		if a.ReleasedMs != 0 {
			return true
		}
		if !ok || size != a.Size {
			err = blob.Retry(ctx, copyTries, func() error { return copyArtefact(ctx, from, to, a) })
		}
		switch {
		case err == nil:
			copied++
		case errors.Is(err, storage.ErrNotFound), errors.Is(err, ErrDamaged):
			if err = nil; a.JobId != "" {
				missing = append(missing, key)
			}
		}
		return err == nil
	})
	return copied, missing, err
}

// copyTries is how often the copy of an artefact is tried.
const copyTries = 4

// copyArtefact copies an object, and compares its hash.
func copyArtefact(ctx context.Context, from, to storage.Bucket, a *fsm.Artefact) error {
	key := artefacts.Key(a)
	source, ok := from.(storage.Streamer)
	target, ok2 := to.(storage.Streamer)
	if !ok || !ok2 {
		return backoff.Permanent(fmt.Errorf("copy %q: %w", key, errors.ErrUnsupported))
	}
	r, err := source.GetRange(ctx, key, 0, a.Size)
	if errors.Is(err, storage.ErrNotFound) {
		return backoff.Permanent(err)
	}
	if err != nil {
		return fmt.Errorf("copy %q: %w", key, err)
	}
	defer r.Close()
	in := &noting{r: r}
	w := target.PutStream(ctx, key, in, storage.Content{Size: a.Size, Sum: storage.Sum(a.Sum)})
	if w.Outcome == storage.Committed {
		return nil
	}
	switch there, err := target.Stat(ctx, key); {
	case err == nil && there.Size == a.Size: // of an earlier attempt, or of another copy
		return nil
	case w.Outcome == storage.Conflict && err == nil:
		return backoff.Permanent(fmt.Errorf("copy %q: the target has another object of that name", key))
	case errors.Is(w.Err, storage.ErrContent) && in.err == nil:
		return fmt.Errorf("copy %q: %w: %w", key, ErrDamaged, w.Err)
	}
	return fmt.Errorf("copy %q: the write is %s: %w", key, w.Outcome, w.Err)
}
