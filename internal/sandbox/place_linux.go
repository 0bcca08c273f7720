package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
)

// place is the directory that contains the directories of a worker's commands. It is
// safe for concurrent use.
type place struct {
	parent string

	mu   sync.Mutex
	path string
	held *os.File // the lock that marks the directory as in use; see hold. It also stops cleaners (tmpfiles.d(5))
}

const placePrefix = "osqueue-commands-"

// placeName matches the workers' directories. Names of other programs may have the same
// prefix.
var placeName = regexp.MustCompile(`^` + placePrefix + `\d+$`)

// openPlace makes a place in parent. It removes the places that killed workers have left
// there, if the file system shows which ones are in use.
func openPlace(parent string) (*place, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err == nil && locksAreSeen(uint32(st.Type)) {
		removeLeftPlaces(parent)
	}
	p := &place{parent: parent}
	_, err := p.instead("")
	return p, err
}

// newDir makes a directory for a command. If a cleaner of old files has removed the
// place of an idle worker, newDir makes another place.
func (p *place) newDir(owner *uidLoan) (string, error) {
	p.mu.Lock()
	path := p.path
	p.mu.Unlock()
	dir, err := newDir(path, owner)
	if !errors.Is(err, fs.ErrNotExist) {
		return dir, err
	}
	if path, err = p.instead(path); err != nil {
		return "", err
	}
	return newDir(path, owner)
}

// instead makes another place for one that is gone, unless another call has done so.
func (p *place) instead(gone string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.path != gone {
		return p.path, nil
	}
	path, held, err := makeHeld(func() (string, error) {
		path, err := os.MkdirTemp(p.parent, placePrefix)
		if err == nil {
			err = os.Chmod(path, 0o711) // commands may pass the directory, but neither read nor lock it
		}
		if err != nil {
			return "", fmt.Errorf("make a directory for commands: %w", err)
		}
		return path, nil
	})
	if err != nil {
		return "", err
	}
	if p.held != nil {
		p.held.Close()
	}
	p.path, p.held = path, held
	return path, nil
}

// close removes the place. Its commands must have ended.
func (p *place) close() error {
	if p.held == nil {
		return nil
	}
	defer p.held.Close()
	return removeDir(p.path)
}

// locksAreSeen reports whether all users of a file system see locks of directories, by
// its number in statfs(2). On network file systems each machine may see only its own
// locks: the places of workers on other machines would look unused.
func locksAreSeen(number uint32) bool {
	switch number {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC,
		0x0bd00bd0, 0x47504653, 0x19830326, 0x786f4256: // Lustre, GPFS, BeeGFS, VirtualBox
		return false
	}
	return true
}

// removeLeftPlaces removes the places without a lock. If a place cannot be removed now,
// the next worker tries again.
func removeLeftPlaces(parent string) {
	for _, name := range dirsIn(parent) {
		path := filepath.Join(parent, name)
		if !placeName.MatchString(name) {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue // the place has just been removed
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue // it belongs to another user
		}
		if held, err := hold(path); err == nil {
			_ = removeDir(path)
			held.Close()
		}
	}
}
