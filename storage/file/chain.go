package file

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
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
	droppedPrefix = 'x' // staged bytes that lost to an edit from outside

	numberDigits = 20
)

// base is the target of the first link of a chain, which stands for no write.
const base = "base"

// basisDigits is how much of a hash a link carries.
const basisDigits = 16

// chain is the content of a chain's directory at the time of a read.
type chain struct {
	highest uint64   // 0: there is no chain
	target  string   // of the link of the highest number
	names   []string // sorted
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
func (v *visit) readChain(dir string) (chain, error) {
	for {
		names, err := v.readNames(dir)
		if absent(err) {
			return chain{}, nil
		}
		if err != nil {
			return chain{}, err
		}
		c := chain{names: names}
		if err = v.findHighest(dir, &c); !absent(err) {
			return c, err
		}
		// It was given up since: there is a higher one, or the key was deleted.
	}
}

// readNames returns the sorted names in a directory. File.ReadDir would ask for each of the files, in a directory of a
// Root.
func (v *visit) readNames(dir string) ([]string, error) {
	d, err := v.root.Open(dir)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	names, err := d.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// findHighest sets the highest number that is taken in a chain's directory.
func (v *visit) findHighest(dir string, c *chain) error {
	for _, name := range slices.Backward(c.names) {
		prefix, n, ok := numberOf(name)
		if !ok || prefix != takenPrefix {
			continue
		}
		target, err := v.root.Readlink(filepath.Join(dir, name))
		if errors.Is(err, syscall.EINVAL) {
			continue // a copy of the directory can have files in the place of links
		}
		c.highest, c.target = n, target
		return err
	}
	return nil
}

// takenInTurn reports whether the link n, which its writer has just made, was
// the next one when it was made: the one before it is there, and none is so
// far ahead that n may have been given up before.
func (c chain) takenInTurn(n uint64) bool {
	_, found := slices.BinarySearch(c.names, chainName(takenPrefix, n-1))
	return found && c.highest < n+kept
}

// beginChain makes the chain of a key that has none. Its first number is the
// time, so that the numbers of a chain that was deleted do not come back.
func (v *visit) beginChain(key string) error {
	dir := chainDir(key)
	staged := filepath.Join(tempDir, rand.Text())
	err := v.root.Mkdir(staged, dirMode)
	if absent(err) {
		if err = v.makePrivate(); err == nil {
			err = v.root.Mkdir(staged, dirMode)
		}
	}
	if err != nil {
		return err
	}
	defer func() { _ = v.root.RemoveAll(staged) }() // gone already if it was placed
	first := chainName(takenPrefix, uint64(max(time.Now().UnixNano(), 1)))
	if err := errors.Join(v.root.Symlink(base, filepath.Join(staged, first)), v.sync(v.root, staged)); err != nil {
		return err
	}
	// Rename replaces an empty directory only, so that one of several wins.
	err = v.inDirs(chainsDir, dir, func() error { return v.root.Rename(staged, dir) })
	if errors.Is(err, fs.ErrExist) {
		return v.restartChain(dir)
	}
	if err != nil {
		return err
	}
	return v.syncDir(filepath.Dir(dir))
}

// restartChain makes a first link in a chain's directory that has none, if that is so: the
// directory was copied without its symbolic links. Several processes may do so at once. All
// numbers are new, so that none collides with what else was copied.
func (v *visit) restartChain(dir string) error {
	c, err := v.readChain(dir)
	if err != nil || c.highest > 0 {
		return err
	}
	first := uint64(max(time.Now().UnixNano(), 1))
	for _, name := range c.names {
		if _, n, ok := numberOf(name); ok {
			first = max(first, n+1)
		}
	}
	err = v.root.Symlink(base, filepath.Join(dir, chainName(takenPrefix, first)))
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return v.syncDir(dir)
}

// settle finishes the newest write of a key if its writer has not: it puts the
// bytes in the place of the object. It returns the chain that was read before.
func (v *visit) settle(key string) (chain, error) {
	dir := chainDir(key)
	c, err := v.readChain(dir)
	if err != nil || c.highest == 0 {
		return c, err
	}
	nonce, basis, ok := strings.Cut(c.target, ".")
	if !ok {
		return c, nil
	}
	// The listing may be older than the link, and so not have the staged file.
	if _, err := v.root.Lstat(filepath.Join(dir, stagedName(c.highest, nonce))); absent(err) {
		return c, nil
	}
	_, err = v.publish(key, c.highest, nonce, basis)
	return c, err
}

// publish renames the staged bytes of the committed write n onto the object,
// if that still has the bytes that they replace; otherwise it was edited since,
// and they are renamed. Any number of processes may do so at once and at any
// time: the staged file is there for one of them only, and it is gone before
// the next number can be taken. publish reports whether it did so itself, durably.
func (v *visit) publish(key string, n uint64, nonce, basis string) (itself bool, err error) {
	if v.readOnly {
		return false, fs.ErrPermission
	}
	dir := chainDir(key)
	staged := filepath.Join(dir, stagedName(n, nonce))
	_, sum, err := v.readObject(path(key))
	if err != nil && !absent(err) {
		return false, err
	}
	to := path(key)
	if err != nil || !strings.HasPrefix(sum, basis) {
		to = filepath.Join(dir, droppedName(n, nonce))
	}
	if err := v.step(stepChecked); err != nil {
		return false, err
	}
	if err := v.root.Rename(staged, to); err != nil {
		if absent(err) {
			return false, nil // another writer was first
		}
		return false, err
	}
	if err := v.step(stepPublished); err != nil {
		return false, err
	}
	err = v.syncDir(filepath.Dir(to))
	return err == nil && to == path(key), err
}

// unpublished returns the path of the newest committed write that waits to be
// published, for a reader that may not do so itself.
func (v *visit) unpublished(key string) (string, error) {
	dir := chainDir(key)
	c, err := v.readChain(dir)
	if err != nil || c.highest == 0 {
		return "", errors.Join(err, fs.ErrNotExist)
	}
	nonce, _, _ := strings.Cut(c.target, ".")
	return filepath.Join(dir, stagedName(c.highest, nonce)), nil
}

// tidy removes what the write n has made superfluous. An error is none: the
// next write tries again.
func (v *visit) tidy(dir string, c chain, n uint64) {
	// In ascending order, since takenInTurn relies on it. A writer that stops here
	// and continues later removes only numbers that are free to remove anyway.
	for _, name := range c.names {
		prefix, number, ok := numberOf(name)
		switch {
		case !ok:
		case prefix == stagedPrefix && number <= n, prefix != stagedPrefix && number+kept <= n:
			if err := v.root.Remove(filepath.Join(dir, name)); err != nil && !absent(err) {
				return
			}
		}
	}
}

// hexSum is how hashes are written in versions and links.
func hexSum(sum [32]byte) string { return hex.EncodeToString(sum[:]) }
