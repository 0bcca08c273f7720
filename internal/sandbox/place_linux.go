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

// place is the directory in which a worker's commands have theirs. It is safe for
// concurrent use.
type place struct {
	parent string

	mu   sync.Mutex
	path string
	held *os.File // says that it is in use; see hold. Cleaners (tmpfiles.d(5)) spare it then, too
}

const placePrefix = "osqueue-commands-"

// Names that others have given may begin like ours too.
var placeName = regexp.MustCompile(`^` + placePrefix + `\d+$`)

// openPlace makes a place in parent, and removes those that killed workers have left
// there, if it can tell them from others.
func openPlace(parent string) (*place, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(parent, &st); err == nil && locksAreSeen(uint32(st.Type)) {
		removeLeftPlaces(parent)
	}
	p := &place{parent: parent}
	_, err := p.instead("")
	return p, err
}

// newDir makes a directory for a command. A cleaner of old files may have removed the
// place of a worker that was long idle.
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

// instead makes another place for one that is gone, unless that was done meanwhile.
func (p *place) instead(gone string) (string, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.path != gone {
		return p.path, nil
	}
	path, held, err := makeHeld(func() (string, error) {
		path, err := os.MkdirTemp(p.parent, placePrefix)
		if err == nil {
			err = os.Chmod(path, 0o711) // commands pass it, and can neither read nor lock it
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

// close removes the place. Its commands have ended.
func (p *place) close() error {
	if p.held == nil {
		return nil
	}
	defer p.held.Close()
	return removeDir(p.path)
}

// locksAreSeen says whether locks of directories are seen by all who use a file system,
// by its number in statfs(2). On those of several machines each sees its own at most:
// the places of workers elsewhere would count as left.
func locksAreSeen(number uint32) bool {
	switch number {
	case unix.NFS_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.V9FS_MAGIC,
		unix.FUSE_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.AFS_SUPER_MAGIC, unix.CODA_SUPER_MAGIC,
		0x0bd00bd0, 0x47504653, 0x19830326, 0x786f4256: // Lustre, GPFS, BeeGFS, VirtualBox
		return false
	}
	return true
}

// removeLeftPlaces removes what nobody holds any more. What cannot be removed now is
// left to the next worker.
func removeLeftPlaces(parent string) {
	for _, name := range dirsIn(parent) {
		path := filepath.Join(parent, name)
		if !placeName.MatchString(name) {
			continue
		}
		info, err := os.Lstat(path)
		if err != nil {
			continue // it has just been removed
		}
		if st, ok := info.Sys().(*syscall.Stat_t); !ok || int(st.Uid) != os.Geteuid() {
			continue // somebody else's
		}
		if held, err := hold(path); err == nil {
			_ = removeDir(path)
			held.Close()
		}
	}
}
