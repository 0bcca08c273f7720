package file

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/storage"
)

// The steps of a write, as given to Bucket.at after each is done.
const (
	stepStaged     = "staged"      // the new bytes are durable in tmp
	stepLocked     = "locked"      // the key's lock is held
	stepCardStaged = "card-staged" // the new card is durable in tmp
	stepCardPlaced = "card-placed" // the card names old and new bytes
	stepRenamed    = "renamed"     // the object has the new bytes: committed
	stepSynced     = "synced"      // … and durable
)

// errChanged says that the condition of a write did not hold.
var errChanged = errors.New("the object's version is another one")

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(ctx, key, data, func(s state) bool { return !s.exists })
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.put(ctx, key, data, func(s state) bool { return s.exists && s.version == v })
}

func (b *Bucket) put(ctx context.Context, key string, data []byte, allowed func(state) bool) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	v, err := b.tryPut(ctx, key, data, allowed)
	switch {
	case errors.Is(err, errChanged):
		return storage.Write{Outcome: storage.Conflict}
	case err != nil:
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.root, err)}
	}
	return storage.Write{Outcome: storage.Committed, Version: v}
}

func (b *Bucket) tryPut(
	ctx context.Context, key string, data []byte, allowed func(state) bool,
) (storage.Version, error) {
	staged, err := writeTemp(b.temp, data)
	if err != nil {
		return "", err
	}
	v, err := b.commit(ctx, key, staged, hash(data), allowed)
	if err != nil {
		os.Remove(staged) // gone already if the failure came after the rename
	}
	return v, err
}

// commit makes the staged file the object if the condition holds under the lock.
func (b *Bucket) commit(
	ctx context.Context, key, staged string, sum [sha256.Size]byte, allowed func(state) bool,
) (storage.Version, error) {
	if err := b.step(stepStaged); err != nil {
		return "", err
	}
	unlock, err := b.locks.lock(ctx, key)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := b.step(stepLocked); err != nil {
		return "", err
	}
	s, err := b.check(ctx, key, allowed)
	if err != nil {
		return "", err
	}
	next, c := s.card.next(s.sum, sum)
	if err := b.placeCard(key, c); err != nil {
		return "", err
	}
	if err := b.placeObject(key, staged); err != nil {
		return "", err
	}
	return next.version(), nil
}

func (b *Bucket) check(ctx context.Context, key string, allowed func(state) bool) (state, error) {
	s, err := b.read(ctx, key)
	if err == nil && !allowed(s) {
		err = errChanged
	}
	return s, err
}

func (b *Bucket) placeCard(key string, c card) error {
	temp, err := writeTemp(b.temp, c.encode())
	if err != nil {
		return err
	}
	err = b.step(stepCardStaged)
	if err == nil {
		err = replace(b.versions, temp, b.cardPath(key))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temp))
	}
	return b.step(stepCardPlaced)
}

// placeObject commits, then makes the object's and the card's name durable.
func (b *Bucket) placeObject(key, staged string) error {
	if err := replace(b.root, staged, b.path(key)); err != nil {
		return err
	}
	if err := b.step(stepRenamed); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(b.path(key))); err != nil {
		return err
	}
	if err := syncDir(filepath.Dir(b.cardPath(key))); err != nil {
		return err
	}
	return b.step(stepSynced)
}

// Delete implements storage.Bucket. The card goes last: one without an object
// is ignored, and replaced when the key is created again.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := storage.ValidateKey(key); err != nil {
		return err
	}
	unlock, err := b.locks.lock(ctx, key)
	if err != nil {
		return fmt.Errorf("delete %q from %s: %w", key, b.root, err)
	}
	defer unlock()
	for _, p := range []struct{ root, path string }{{b.root, b.path(key)}, {b.versions, b.cardPath(key)}} {
		if err := remove(p.root, p.path); err != nil {
			return fmt.Errorf("delete %q from %s: %w", key, b.root, err)
		}
	}
	return nil
}

// remove removes the file path durably, and directories below root that this
// leaves empty. What is not there, or is a directory, is no object: no error.
func remove(root, path string) error {
	info, err := os.Lstat(path)
	if absent(err) || err == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := syncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	pruneDirs(root, filepath.Dir(path))
	return nil
}

func (b *Bucket) step(name string) error {
	if b.at == nil {
		return nil
	}
	return b.at(name)
}
