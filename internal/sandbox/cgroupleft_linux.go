package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"
)

// groupPrefix is the prefix of the names of all groups that workers make.
const groupPrefix = "osqueue-"

// Patterns of the workers' groups. Groups of other programs may have the same prefix,
// such as osqueue-prod.
var (
	commandsName = regexp.MustCompile(`^` + groupPrefix + `\d+-[0-9a-z]+$`)
	leafName     = regexp.MustCompile(`^` + groupPrefix + `worker-\d+-[0-9a-z]+$`)
)

// makeHeldGroup makes a locked group below own.
func makeHeldGroup(own string) (path string, held *os.File, err error) {
	return makeHeld(func() (string, error) {
		path := filepath.Join(own, groupPrefix+strconv.Itoa(os.Getpid())+"-"+strconv.FormatInt(time.Now().UnixNano(), 36))
		if err := os.Mkdir(path, 0o700); err != nil {
			return "", fmt.Errorf("make a control group: %w", err)
		}
		return path, nil
	})
}

// removeLeft removes the groups below own that killed workers have left. If a group
// cannot be removed now, the next worker tries again. removeLeft ends no process in a
// leaf: the processes below a leaf belong to another worker, which was started there.
func removeLeft(own string) {
	for _, name := range dirsIn(own) {
		path := filepath.Join(own, name)
		if leafName.MatchString(name) {
			_ = os.Remove(path) // fails while the leaf is in use
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

// removeWithAll ends all processes in the commands' groups below path, and removes these
// groups and path.
func removeWithAll(path string) {
	for _, name := range dirsIn(path) {
		group := filepath.Join(path, name)
		if dir, err := os.Open(group); err == nil {
			c := &cgroup{dir: dir}
			c.kill()
			_ = c.close() // fails while a process of the group lives
		}
	}
	_ = os.Remove(path) // the next worker tries again
}
