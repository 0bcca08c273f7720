package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// NotPossibleError says that this machine does not allow a fault, and why. A test that gets it
// is void, and must report this.
type NotPossibleError struct {
	What string
	Err  error
}

func (e *NotPossibleError) Error() string {
	return fmt.Sprintf("%s is not possible here: %v", e.What, e.Err)
}

// Unwrap returns the reason.
func (e *NotPossibleError) Unwrap() error { return e.Err }

// errNoDisk is returned for a node without a disk of its own.
var errNoDisk = errors.New("the node has no disk of its own: call MountDisk first")

// Space is the size and the free space of a disk, in bytes.
type Space struct{ Size, Free int64 }

// ballast returns the file that fills a disk.
func (n *Node) ballast() string { return filepath.Join(n.disk, "ballast") }

// MountDisk mounts a disk (tmpfs) of the given size as the data directory of a stopped node
// without data. The disk is removed when the test ends. The error is a NotPossibleError if
// mounting is not allowed.
func (n *Node) MountDisk(bytes int64) error {
	if n.Running() || n.disk != "" {
		return fmt.Errorf("%s runs, or has a disk of its own", n.Name)
	}
	if err := os.MkdirAll(n.data(), 0o700); err != nil {
		return err
	}
	if entries, err := os.ReadDir(n.data()); err != nil || len(entries) > 0 {
		return fmt.Errorf("%s has data: %w", n.Name, err)
	}
	if err := mountTmpfs(n.data(), bytes); err != nil {
		return &NotPossibleError{What: "a disk of its own for " + n.Name, Err: err}
	}
	n.disk = n.data()
	return nil
}

func (n *Node) unmount() error {
	if n.disk == "" {
		return nil
	}
	if err := unmountTmpfs(n.disk); err != nil {
		return fmt.Errorf("unmount the disk of %s: %w", n.Name, err)
	}
	n.disk = ""
	return nil
}

// fillTries bounds the number of times that FillDisk fills a disk on which space becomes free
// again.
const fillTries = 20

// FillDisk fills the node's own disk with a file, until at most leave bytes are free. It
// returns the remaining free space as the proof. The node may run.
func (n *Node) FillDisk(leave int64) (Space, error) {
	if n.disk == "" {
		return Space{}, errNoDisk
	}
	f, err := os.OpenFile(n.ballast(), os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return Space{}, err
	}
	defer f.Close()
	var s Space
	for range fillTries {
		if s, err = spaceOf(n.disk); err != nil || s.Free <= leave {
			return s, err
		}
		// If the node takes the space first, there is less to fill.
		if err := grow(f, s.Free-leave); err != nil && !full(err) {
			return s, err
		}
	}
	return s, fmt.Errorf("the disk of %s is not full: %+v", n.Name, s)
}

// FreeDisk removes the file of FillDisk.
func (n *Node) FreeDisk() error {
	if n.disk == "" {
		return errNoDisk
	}
	return os.Remove(n.ballast())
}
