package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// kept is how many numbers of a chain stay taken behind the highest one. A
// writer that finds its own number within that distance knows that the number had
// not been removed before it took it.
const kept = 64

// Names in the directory of a chain begin with one of these, followed by the
// number in numberDigits digits.
const (
	takenPrefix   = 'v' // a symbolic link: the write with that number is committed
	stagedPrefix  = 'd' // bytes that are to be published as that number
	droppedPrefix = 'x' // bytes of a number that an edit from outside came before

	numberDigits = 20
)

// base is the target of the first link of a chain, which stands for no write.
const base = "base"

// basisDigits is how much of a hash a link carries.
const basisDigits = 16

// chain is the content of a chain's directory at the time of a read.
type chain struct {
	highest uint64 // 0: there is no chain
	names   map[string]bool
}

func chainName(prefix byte, number uint64) string {
	return fmt.Sprintf("%c%0*d", prefix, numberDigits, number)
}

func stagedName(number uint64, nonce string) string {
	return chainName(stagedPrefix, number) + "-" + nonce
}

func droppedName(number uint64, nonce string) string {
	return chainName(droppedPrefix, number) + "-" + nonce
}

// linkTarget returns the target of a committed write's link. It names the staged
// file that has the bytes, and the bytes that they replace.
func linkTarget(nonce, basis string) string { return nonce + "." + basis[:basisDigits] }

// numberOf reads the number out of a name in a chain.
func numberOf(name string) (prefix byte, number uint64, ok bool) {
	if len(name) < 1+numberDigits {
		return 0, 0, false
	}
	number, err := strconv.ParseUint(name[1:1+numberDigits], 10, 64)
	return name[0], number, err == nil && number > 0
}

// readChain reads the directory of a chain; one that does not exist has no
// links. Links that others make or remove meanwhile may or may not be in it; it
// has all others.
func readChain(dir string) (chain, error) {
	entries, err := os.ReadDir(dir)
	if absent(err) {
		return chain{}, nil
	}
	if err != nil {
		return chain{}, err
	}
	c := chain{names: make(map[string]bool, len(entries))}
	for _, e := range entries {
		c.names[e.Name()] = true
		// A copy of the directory can have files in the place of links.
		if prefix, n, ok := numberOf(e.Name()); ok && prefix == takenPrefix && e.Type()&fs.ModeSymlink != 0 {
			c.highest = max(c.highest, n)
		}
	}
	return c, nil
}

// takenInTurn reports whether the link n, which its writer has just made, was
// the next one when it was made: the one before it is there, and none is so
// far ahead that n may have been given up before.
func (c chain) takenInTurn(n uint64) bool {
	return c.names[chainName(takenPrefix, n-1)] && c.highest < n+kept
}

// beginChain makes the chain of a key that has none. Its first number is the
// time, so that the numbers of a chain that was deleted do not come back.
func (b *Bucket) beginChain(key string) error {
	dir := b.chainDir(key)
	staged := filepath.Join(b.temp, rand.Text())
	err := os.Mkdir(staged, dirMode)
	if absent(err) {
		if err = b.makePrivate(); err == nil {
			err = os.Mkdir(staged, dirMode)
		}
	}
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged) // gone already if it was placed
	first := chainName(takenPrefix, uint64(max(time.Now().UnixNano(), 1)))
	if err := errors.Join(os.Symlink(base, filepath.Join(staged, first)), b.sync(staged)); err != nil {
		return err
	}
	// Rename replaces an empty directory only, so that one of several wins.
	err = b.inDirs(b.chains, dir, func() error { return os.Rename(staged, dir) })
	if errors.Is(err, fs.ErrExist) {
		return b.restartChain(dir)
	}
	if err != nil {
		return err
	}
	return b.syncDir(filepath.Dir(dir))
}

// restartChain makes a first link in a chain's directory that has none, if that is so: the
// directory was copied without its symbolic links. Several processes may do so at once. All
// numbers are new, so that none collides with what else was copied.
func (b *Bucket) restartChain(dir string) error {
	c, err := readChain(dir)
	if err != nil || c.highest > 0 {
		return err
	}
	first := uint64(max(time.Now().UnixNano(), 1))
	for name := range c.names {
		if _, n, ok := numberOf(name); ok {
			first = max(first, n+1)
		}
	}
	err = os.Symlink(base, filepath.Join(dir, chainName(takenPrefix, first)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return b.syncDir(dir)
}

// settle finishes the newest write of a key if its writer has not: it puts the
// bytes in the place of the object. It returns the chain that was read before.
func (b *Bucket) settle(key string) (chain, error) {
	dir := b.chainDir(key)
	for {
		c, err := readChain(dir)
		if err != nil || c.highest == 0 {
			return c, err
		}
		target, err := os.Readlink(filepath.Join(dir, chainName(takenPrefix, c.highest)))
		if absent(err) {
			continue // given up since: there is a higher one, or the key was deleted
		}
		if err != nil {
			return c, err
		}
		nonce, basis, ok := strings.Cut(target, ".")
		if !ok {
			return c, nil
		}
		// The listing may be older than the link, and so not have the staged file.
		if _, err := os.Lstat(filepath.Join(dir, stagedName(c.highest, nonce))); absent(err) {
			return c, nil
		}
		_, err = b.publish(key, c.highest, nonce, basis)
		return c, err
	}
}

// publish renames the staged bytes of the committed write n onto the object,
// if that still has the bytes that they replace; otherwise it was edited since,
// and they are put aside. Any number of processes may do so at once and at any
// time: the staged file is there for one of them only, and it is gone before
// the next number can be taken. publish reports whether it did so itself, durably.
func (b *Bucket) publish(key string, n uint64, nonce, basis string) (itself bool, err error) {
	dir := b.chainDir(key)
	staged := filepath.Join(dir, stagedName(n, nonce))
	_, sum, err := readObject(b.path(key))
	if err != nil && !absent(err) {
		return false, err
	}
	to := b.path(key)
	if err != nil || !strings.HasPrefix(sum, basis) {
		to = filepath.Join(dir, droppedName(n, nonce))
	}
	if err := b.step(stepChecked); err != nil {
		return false, err
	}
	if err := os.Rename(staged, to); err != nil {
		if absent(err) {
			return false, nil // another writer was first
		}
		return false, err
	}
	if err := b.step(stepPublished); err != nil {
		return false, err
	}
	err = b.syncDir(filepath.Dir(to))
	return err == nil && to == b.path(key), err
}

// unpublished returns the bytes of the newest committed write that wait to be
// published, for a reader that may not do so itself.
func (b *Bucket) unpublished(key string) ([]byte, string, error) {
	dir := b.chainDir(key)
	c, err := readChain(dir)
	if err != nil || c.highest == 0 {
		return nil, "", errors.Join(err, fs.ErrNotExist)
	}
	target, err := os.Readlink(filepath.Join(dir, chainName(takenPrefix, c.highest)))
	if err != nil {
		return nil, "", err
	}
	nonce, _, _ := strings.Cut(target, ".")
	return readObject(filepath.Join(dir, stagedName(c.highest, nonce)))
}

// tidy removes what the write n has made superfluous. An error is none: the
// next write tries again.
func tidy(dir string, c chain, n uint64) {
	// In ascending order, since takenInTurn relies on it. A writer that stops here
	// and continues later removes only numbers that are free to remove anyway.
	for _, name := range slices.Sorted(maps.Keys(c.names)) {
		prefix, number, ok := numberOf(name)
		switch {
		case !ok:
		case prefix == stagedPrefix && number <= n, prefix != stagedPrefix && number+kept <= n:
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !absent(err) {
				return
			}
		}
	}
}

// hexSum is how hashes are written in versions and links.
func hexSum(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
