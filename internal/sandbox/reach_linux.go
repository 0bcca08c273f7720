package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

// checkReach returns an error that names the directory that the user of commands may not
// pass on the way to dir. Without this check the start of a command fails with only
// "permission denied".
func checkReach(dir string) error {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return fmt.Errorf("find the directory for commands: %w", err)
	}
	if dir, err = filepath.EvalSymlinks(dir); err != nil {
		return fmt.Errorf("the directory for commands: %w", err)
	}
	var path []string // the directories from the root down
	for at := dir; ; at = filepath.Dir(at) {
		path = append([]string{at}, path...)
		if at == filepath.Dir(at) {
			break
		}
	}
	for _, at := range path {
		info, err := os.Stat(at)
		if err != nil {
			return fmt.Errorf("the directory for commands: %w", err)
		}
		if !info.IsDir() {
			return fmt.Errorf("the directory for commands: %w", &os.PathError{Op: "open", Path: at, Err: syscall.ENOTDIR})
		}
		if info.Mode().Perm()&0o001 == 0 {
			return fmt.Errorf("commands get directories in %s, but their users cannot pass %s (%v): "+
				"name another directory (--sandbox-dir), or chmod o+x %s", dir, at, info.Mode(), at)
		}
	}
	return nil
}
