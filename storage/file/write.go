package file

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"

	"osqueue/storage"
)

// The steps of a write, as given to Bucket.at after each is done.
const (
	stepStaged    = "staged"    // the new bytes are durable next to the object
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
	return b.putBytes(key, data, func(v *visit) error { return v.create(ctx, key, bytes.NewReader(data)) })
}

// PutStream implements storage.Streamer.
func (b *Bucket) PutStream(ctx context.Context, key string, r io.Reader, c storage.Content) storage.Write {
	src, err := storage.NewSource(ctx, key, r, c)
	if err != nil {
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.dir, err)}
	}
	defer func() { _ = src.Close() }() // its error is that of a read
	return b.put(key, c.Sum, func(v *visit) error { return v.create(ctx, key, src) })
}

// PutIfMatch implements storage.Bucket.
func (b *Bucket) PutIfMatch(ctx context.Context, key string, data []byte, was storage.Version) storage.Write {
	return b.putBytes(key, data, func(v *visit) error { return v.replace(ctx, key, data, was) })
}

func (b *Bucket) putBytes(key string, data []byte, write func(*visit) error) storage.Write {
	if err := storage.ValidateWrite(key, data); err != nil {
		return storage.Write{Err: err}
	}
	return b.put(key, hash(data), write)
}

// put writes an object with that hash.
func (b *Bucket) put(key string, sum storage.Sum, write func(*visit) error) storage.Write {
	err := b.change(write)
	switch {
	case errors.Is(err, errChanged):
		return storage.Write{Outcome: storage.Conflict}
	case err != nil:
		return storage.Write{Err: fmt.Errorf("put %q in %s: %w", key, b.dir, err)}
	}
	return storage.Write{Outcome: storage.Committed, Version: version(hexSum(sum))}
}

// change is visit for a call that writes.
func (b *Bucket) change(do func(*visit) error) error {
	if b.readOnly {
		return errReadOnly
	}
	return b.visit(do)
}

// create makes the object by giving the staged file its name, which fails if
// the name is in use.
func (v *visit) create(ctx context.Context, key string, data io.Reader) error {
	f, _, err := v.open(ctx, key)
	switch {
	case err == nil:
		return errors.Join(errChanged, f.Close())
	case !absent(err):
		return err
	}
	staged := filepath.Join(tempDir, rand.Text())
	if err := v.stage(staged, data); err != nil {
		return err
	}
	defer func() { _ = v.root.Remove(staged) }() // gone already if it was placed
	if err := v.step(stepStaged); err != nil {
		return err
	}
	if key == documentName {
		if err := v.begin(); err != nil {
			return err
		}
	}
	to := path(key)
	err = v.inDirs(".", to, func() error { return v.root.Link(staged, to) })
	switch {
	case errors.Is(err, fs.ErrExist):
		if info, err := v.root.Lstat(to); err == nil && info.IsDir() {
			return fmt.Errorf("%s is a directory", to)
		}
		return errChanged
	case err != nil:
		return linkHelp(err)
	}
	if err := v.step(stepTaken); err != nil {
		return err
	}
	if err := v.syncDir(filepath.Dir(to)); err != nil {
		return err
	}
	return v.step(stepSynced)
}

// replaceAttempts bounds how often a replacement begins again because there was
// no chain: the first one makes it, and a Delete may remove it at the same time.
const replaceAttempts = 10

func (v *visit) replace(ctx context.Context, key string, data []byte, was storage.Version) error {
	var err error
	for range replaceAttempts {
		if err = v.tryReplace(ctx, key, data, was); !errors.Is(err, errNoChain) {
			return err
		}
	}
	return err
}

// errNoChain says that there was no chain, or is none any more.
var errNoChain = errors.New("another program is deleting the object: try again")

func (v *visit) tryReplace(ctx context.Context, key string, data []byte, was storage.Version) error {
	_, basis, c, err := v.read(ctx, key)
	switch {
	case absent(err) || err == nil && version(basis) != was:
		return errChanged
	case err != nil:
		return err
	}
	if c.highest == 0 {
		if err := v.beginChain(key); err != nil {
			return err
		}
		return errNoChain // what was read is older than the chain
	}
	dir, n, nonce := chainDir(key), c.highest+1, rand.Text()
	staged := filepath.Join(dir, stagedName(n, nonce))
	if err := v.stage(staged, bytes.NewReader(data)); err != nil {
		return gone(err)
	}
	taken, err := v.take(ctx, dir, n, nonce, basis)
	if !taken {
		_ = v.root.Remove(staged) // what stays is collected
		return err
	}
	if err := v.step(stepTaken); err != nil {
		return err
	}
	now, err := v.readChain(dir)
	if err == nil && !now.takenInTurn(n) {
		_ = v.root.Remove(staged) // what stays is collected
		err = errOvertaken
	}
	if err != nil {
		return err
	}
	if err := v.syncDir(dir); err != nil {
		return err
	}
	if err := v.step(stepSynced); err != nil {
		return err
	}
	if err := v.finish(key, n, nonce, basis); err != nil {
		return err
	}
	v.tidy(dir, now, n)
	return nil
}

// take makes the link that commits the write n, unless another writer has made it.
func (v *visit) take(ctx context.Context, dir string, n uint64, nonce, basis string) (bool, error) {
	if err := v.step(stepStaged); err != nil {
		return false, err
	}
	if err := ctx.Err(); err != nil {
		return false, err
	}
	err := v.root.Symlink(linkTarget(nonce, basis), filepath.Join(dir, chainName(takenPrefix, n)))
	if errors.Is(err, fs.ErrExist) {
		err = errChanged
	}
	return err == nil, gone(err)
}

// finish publishes the committed write n and makes that durable. Several processes may
// call it for the same write.
func (v *visit) finish(key string, n uint64, nonce, basis string) error {
	itself, err := v.publish(key, n, nonce, basis[:basisDigits])
	if err != nil {
		return err
	}
	if itself {
		return v.step(stepDone)
	}
	if _, err := v.root.Lstat(filepath.Join(chainDir(key), droppedName(n, nonce))); err == nil {
		return errEdited
	}
	if err := v.syncDir(filepath.Dir(path(key))); err != nil {
		return err
	}
	return v.step(stepDone)
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
		err = b.change(func(v *visit) error { return v.deleteAll(key) })
	}
	if err != nil {
		return fmt.Errorf("delete %q from %s: %w", key, b.dir, err)
	}
	return nil
}

func (v *visit) deleteAll(key string) error {
	for round := 0; ; round++ {
		had, err := v.removeChain(key)
		if err != nil || round > 0 && !had {
			return err
		}
		if err := v.step(stepUnchained); err != nil {
			return err
		}
		if err := v.remove(path(key)); err != nil {
			return err
		}
	}
}

// removeChain moves the chain away as a whole, so that no writer can take an old
// number again. It reports whether there was one.
func (v *visit) removeChain(key string) (had bool, err error) {
	dir, trash := chainDir(key), filepath.Join(tempDir, rand.Text())
	if err := v.root.Rename(dir, trash); err != nil {
		if absent(err) {
			return false, nil
		}
		return false, err
	}
	v.pruneDirs(chainsDir, filepath.Dir(dir))
	return true, v.root.RemoveAll(trash)
}

// remove removes the file path durably, and directories that this leaves empty. A path that
// does not exist, or is a directory, is no object and no error.
func (v *visit) remove(path string) error {
	info, err := v.root.Lstat(path)
	if absent(err) || err == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	if err := v.root.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := v.syncDir(filepath.Dir(path)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	v.pruneDirs(".", filepath.Dir(path))
	return nil
}

func (b *Bucket) step(name string) error {
	if b.at == nil {
		return nil
	}
	return b.at(name)
}
