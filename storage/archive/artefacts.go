package archive

import (
	"context"
	"errors"
	"fmt"

	"osqueue/fsm"
	"osqueue/fsm/artefacts"
	"osqueue/storage"
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
// there already stays. missing lists the keys of artefacts of jobs that from does not have.
func CopyArtefacts(ctx context.Context, from, to storage.Bucket, v *fsm.View) (copied int, missing []string, err error) {
	v.AllArtefacts(func(a *fsm.Artefact) bool {
		if a.ReleasedMs != 0 {
			return true
		}
		switch err = copyArtefact(ctx, from, to, a); {
		case err == nil:
			copied++
		case errors.Is(err, storage.ErrNotFound):
			if err = nil; a.JobId != "" {
				missing = append(missing, artefacts.Key(a))
			}
		}
		return err == nil
	})
	return copied, missing, err
}

// copyArtefact copies an object, and compares its hash.
func copyArtefact(ctx context.Context, from, to storage.Bucket, a *fsm.Artefact) error {
	source, ok := from.(storage.Streamer)
	target, ok2 := to.(storage.Streamer)
	if !ok || !ok2 {
		return fmt.Errorf("copy %q: %w", artefacts.Key(a), errors.ErrUnsupported)
	}
	key := artefacts.Key(a)
	if there, err := target.Stat(ctx, key); err == nil && there.Size == a.Size { // of an earlier attempt
		return nil
	}
	r, err := source.GetRange(ctx, key, 0, a.Size)
	if err != nil {
		return fmt.Errorf("copy %q: %w", key, err)
	}
	defer r.Close()
	w := target.PutStream(ctx, key, r, storage.Content{Size: a.Size, Sum: storage.Sum(a.Sum)})
	switch w.Outcome {
	case storage.Committed:
		return nil
	case storage.Conflict:
		return fmt.Errorf("copy %q: the target has another object of that name", key)
	}
	return fmt.Errorf("copy %q: %w", key, w.Err)
}
