package file

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"osqueue/storage"
)

// The steps of a write, as given to Bucket.at after each is done.
const (
	stepStaged    = "staged"    // the new bytes are durable beside the object
	stepTaken     = "taken"     // the number is taken, or the new object made: committed
	stepSynced    = "synced"    // … and durable
	stepPublished = "published" // a replacement is in the place of the object
	stepDone      = "done"      // … and durable

	stepChecked   = "checked"   // who publishes has seen that the object is still the one to be replaced
	stepUnchained = "unchained" // a Delete has removed the chain, and continues with the object
)

// errChanged says that the condition of a write did not hold.
var errChanged = errors.New("the object has another version")

// errOvertaken says that a writer stood still for so long that it cannot tell
// what became of its write.
var errOvertaken = errors.New("other writers have written many versions since this write began")

// errEdited says that the object was changed by another program during a write.
var errEdited = errors.New("another program changed the file during the write")

// PutIfAbsent implements storage.Bucket.
func (b *Bucket) PutIfAbsent(ctx context.Context, key string, data []byte) storage.Write {
	return b.put(key, data, func() error {
		err := b.beside(ctx, key, func() error { return b.create(ctx, key, data) })
		if err == nil && !b.claimed() {
			b.setOwn(key, true)
		}
		return err
	})
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, v storage.Version) storage.Write {
	return b.put(key, data, func() error {
		replace := func() error { return b.replace(ctx, key, data, v) }
		if b.claimed() {
			return replace()
		}
		if b.isOwn(key) {
			return b.beside(ctx, key, replace)
		}
		if _, sum, _, err := b.read(ctx, key); absent(err) || err == nil && version(sum) != v {
			return errChanged // it takes no claim to see that
		}
		if err := b.claim(ctx); err != nil {
			return err
		}
		return replace()
	})
}

func (b *Bucket) put(key string, data []byte, write func() error) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	err := write()
	switch {
	case errors.Is(err, errChanged):
		return storage.Write{Outcome: storage.Conflict}
	case err != nil:
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.root, err)}
	}
	return storage.Write{Outcome: storage.Committed, Version: version(hexSum(hash(data)))}
}

// isOwn reports whether this Bucket has created the object before older releases were shut
// out. No other process replaces such an object: its key has a random part.
func (b *Bucket) isOwn(key string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.own[key]
}

// setOwn remembers that this Bucket has created an object, or that it is deleted.
func (b *Bucket) setOwn(key string, own bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if own {
		b.own[key] = true
	} else {
		delete(b.own, key)
	}
}

// create makes the object by giving the staged file its name, which fails if
// the name is in use.
func (b *Bucket) create(ctx context.Context, key string, data []byte) error {
	_, _, _, err := b.read(ctx, key)
	switch {
	case err == nil:
		return errChanged
	case !absent(err):
		return err
	}
	staged := filepath.Join(b.temp, rand.Text())
	if err := b.stage(staged, data); err != nil {
		return err
	}
	defer os.Remove(staged)
	if err := b.step(stepStaged); err != nil {
		return err
	}
	path := b.path(key)
	err = b.inDirs(b.root, path, func() error { return os.Link(staged, path) })
	switch {
	case errors.Is(err, fs.ErrExist):
		if info, err := os.Lstat(path); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory", path)
		}
		return errChanged
	case err != nil:
		return linkHelp(err)
	}
	if err := b.step(stepTaken); err != nil {
		return err
	}
	if err := b.syncDir(filepath.Dir(path)); err != nil {
		return err
	}
	return b.step(stepSynced)
}

// replaceAttempts bounds how often a replacement begins again because there was
// no chain: the first one makes it, and a Delete may remove it at the same time.
const replaceAttempts = 10

func (b *Bucket) replace(ctx context.Context, key string, data []byte, v storage.Version) error {
	var err error
	for range replaceAttempts {
		if err = b.tryReplace(ctx, key, data, v); !errors.Is(err, errNoChain) {
			return err
		}
	}
	return err
}

// errNoChain says that there was no chain, or is none any more.
var errNoChain = errors.New("another program is deleting the object: try again")

func (b *Bucket) tryReplace(ctx context.Context, key string, data []byte, v storage.Version) error {
	_, basis, c, err := b.read(ctx, key)
	switch {
	case absent(err) || err == nil && version(basis) != v:
		return errChanged
	case err != nil:
		return err
	}
	if c.highest == 0 {
		if err := b.beginChain(key); err != nil {
			return err
		}
		return errNoChain // what was read is older than the chain
	}
	dir, n, nonce := b.chainDir(key), c.highest+1, rand.Text()
	staged := filepath.Join(dir, stagedName(n, nonce))
	if err := b.stage(staged, data); err != nil {
		return gone(err)
	}
	taken, err := b.take(ctx, dir, n, nonce, basis)
	if !taken {
		os.Remove(staged)
		return err
	}
	if err := b.step(stepTaken); err != nil {
		return err
	}
	now, err := readChain(dir)
	if err == nil && !now.takenInTurn(n) {
		os.Remove(staged)
		err = errOvertaken
	}
	if err != nil {
		return err
	}
	if err := b.syncDir(dir); err != nil {
		return err
	}
	if err := b.step(stepSynced); err != nil {
		return err
	}
	if err := b.finish(key, n, nonce, basis); err != nil {
		return err
	}
	tidy(dir, now, n)
	return nil
}

// take makes the link that commits the write n, unless another writer has made it.
func (b *Bucket) take(ctx context.Context, dir string, n uint64, nonce, basis string) (bool, error) {
	if err := b.step(stepStaged); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err := os.Symlink(linkTarget(nonce, basis), filepath.Join(dir, chainName(takenPrefix, n)))
	if errors.Is(err, fs.ErrExist) {
		err = errChanged
	}
	return err == nil, gone(err)
}

// finish publishes the committed write n and makes that durable. Several processes may
// call it for the same write.
func (b *Bucket) finish(key string, n uint64, nonce, basis string) error {
	itself, err := b.publish(key, n, nonce, basis[:basisDigits])
	if err != nil {
		return err
	}
	if itself {
		return b.step(stepDone)
	}
	if _, err := os.Lstat(filepath.Join(b.chainDir(key), droppedName(n, nonce))); err == nil {
		return errEdited
	}
	if err := b.syncDir(filepath.Dir(b.path(key))); err != nil {
		return err
	}
	return b.step(stepDone)
}

// gone turns the absence of a chain's directory into errNoChain.
func gone(err error) error {
	if absent(err) {
		return errNoChain
	}
	return linkHelp(err)
}

// Delete implements storage.Bucket. The chain goes first: without one, the
// object is what its file says. A replacement that begins a chain at the same time, and puts
// its bytes in the place of the object after that was removed, is removed in the next round.
func (b *Bucket) Delete(ctx context.Context, key string) error {
	if err := storage.ValidateKey(key); err != nil {
		return err
	}
	err := ctx.Err()
	if err == nil {
		err = b.beside(ctx, key, func() error { return b.deleteAll(key) })
	}
	if err != nil {
		return fmt.Errorf("delete %q from %s: %w", key, b.root, err)
	}
	b.setOwn(key, false)
	return nil
}

func (b *Bucket) deleteAll(key string) error {
	for round := 0; ; round++ {
		had, err := b.removeChain(key)
		if err != nil || round > 0 && !had {
			return err
		}
		if err := b.step(stepUnchained); err != nil {
			return err
		}
		if err := b.remove(b.root, b.path(key)); err != nil {
			return err
		}
		if err := b.remove(b.cards, filepath.Join(b.cards, filepath.FromSlash(key))); err != nil {
			return err
		}
	}
}

// removeChain moves the chain away as a whole, so that no writer can take an old
// number again. It reports whether there was one.
func (b *Bucket) removeChain(key string) (had bool, err error) {
	dir, trash := b.chainDir(key), filepath.Join(b.temp, rand.Text())
	if err := os.Rename(dir, trash); err != nil {
		if absent(err) {
			return false, nil
		}
		return false, err
	}
	pruneDirs(b.chains, filepath.Dir(dir))
	return true, os.RemoveAll(trash)
}

// remove removes the file path durably, and directories below root that this
// leaves empty. A path that does not exist, or is a directory, is no object and no error.
func (b *Bucket) remove(root, path string) error {
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
	if err := b.syncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
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
