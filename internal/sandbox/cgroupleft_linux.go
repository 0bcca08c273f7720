package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// groupPrefix begins the names of the groups that workers make.
const groupPrefix = "osqueue-"

// Names that others have given begin like ours too, as osqueue-prod.
var (
	commandsName = regexp.MustCompile(`^` + groupPrefix + `\d+-[0-9a-z]+$`)
	leafName     = regexp.MustCompile(`^` + groupPrefix + `worker-\d+-[0-9a-z]+$`)
)

// makeHeldGroup makes a group below own.
func makeHeldGroup(own string) (path string, held *os.File, err error) {
	return makeHeld(func() (string, error) {
		path := filepath.Join(own, groupPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		if err := os.Mkdir(path, 0o700); err != nil {
			return "", fmt.Errorf("make a control group: %w", err)
		}
		return path, nil
	})
}

// removeLeft removes the groups below own that killed workers have left. What
// cannot be removed now is left to the next one. Of a leaf nothing is ended: what
// is below it belongs to another worker, which was started there.
func removeLeft(own string) {
	for _, name := range dirsIn(own) {
		path := filepath.Join(own, name)
		if leafName.MatchString(name) {
			_ = os.Remove(path) // one that is in use cannot be
		}
		if !commandsName.MatchString(name) {
			continue
		}
		if held, err := hold(path); err == nil {
			removeWithAll(path)
			held.Close()
		}
	}
}

// removeWithAll ends all processes in the groups of commands, and removes these
// groups and the one that they are in.
func removeWithAll(path string) {
	for _, name := range dirsIn(path) {
		group := filepath.Join(path, name)
		if dir, err := os.Open(group); err == nil {
			c := &cgroup{dir: dir}
			c.kill()
			_ = c.close() // where something lives on, its group does
		}
	}
	_ = os.Remove(path) // the next worker tries again
}
