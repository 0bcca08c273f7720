package sandbox

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"
)

// Level is how much a command is kept from; the package comment says what each
// guarantees.
type Level string

// The levels.
const (
	None      Level = "none"
	Process   Level = "process"
	Namespace Level = "namespace"
)

// ParseLevel reads a level as flags and files write it.
func ParseLevel(text string) (Level, error) {
	if l := Level(text); slices.Contains([]Level{None, Process, Namespace}, l) {
		return l, nil
	}
	return "", fmt.Errorf("sandbox %q: must be none, process or namespace", text)
}

// Limits bound one command. In the level None only Timeout, Output and Log
// count. 0 takes the default.
type Limits struct {
	Timeout   time.Duration // on the wall clock; default: no bound but the job's
	CPU       time.Duration // time of one process; whole seconds
	Memory    int64         // bytes: address space of a process, and with a control group the sum
	Files     int64         // open descriptors of a process
	Processes int64         // processes and threads together
	FileSize  int64         // bytes of one file
	Disk      int64         // bytes of the directory; in Namespace of /tmp and of /dev/shm each
	Output    int           // bytes of stdout; more ends the command
	Log       int           // bytes kept of the end of stderr
}

// DefaultLimits are what 0 in Limits stands for. The output fits into a request
// of 1 MiB also as a JSON string.
func DefaultLimits() Limits {
	return Limits{
		CPU:       10 * time.Minute,
		Memory:    2 << 30,
		Files:     256,
		Processes: 128,
		FileSize:  1 << 30,
		Disk:      1 << 30,
		Output:    512 << 10,
		Log:       4 << 10,
	}
}

func orDefault[T int | int64 | time.Duration](v *T, otherwise T) {
	if *v == 0 {
		*v = otherwise
	}
}

// maxProcesses is half of what Linux can have: bwrap's own are added to a limit,
// and its double must be a number of processes too.
const maxProcesses = 2 << 20

func (l Limits) withDefaults() (Limits, error) {
	d := DefaultLimits()
	orDefault(&l.CPU, d.CPU)
	orDefault(&l.Memory, d.Memory)
	orDefault(&l.Files, d.Files)
	orDefault(&l.Processes, d.Processes)
	orDefault(&l.FileSize, d.FileSize)
	orDefault(&l.Disk, d.Disk)
	orDefault(&l.Output, d.Output)
	orDefault(&l.Log, d.Log)
	if min(l.Memory, l.Files, l.Processes, l.FileSize, l.Disk, int64(l.Output), int64(l.Log), int64(l.Timeout)) < 0 {
		return l, errors.New("a limit must not be negative")
	}
	if l.Processes > maxProcesses {
		return l, fmt.Errorf("limit of processes %d: must be at most %d", l.Processes, maxProcesses)
	}
	if l.CPU < time.Second {
		return l, fmt.Errorf("limit of CPU time %v: must be 1s or more", l.CPU)
	}
	return l, nil
}

// UIDRange are user ids that nobody else on the machine has, of which each
// command gets one. Workers may share a range: an id in use is locked.
type UIDRange struct {
	First, Count int
}

// defaultUIDs are outside of what distributions give to people, services,
// containers and subordinate ids.
var defaultUIDs = UIDRange{First: 1_900_000_000, Count: 1024}

// Config sets a box up.
type Config struct {
	Level  Level // default: None
	Limits Limits
	// UIDs count for a worker that is root. Default: 1024 from 1900000000.
	UIDs UIDRange
	// Dir is where the directories of commands are made. Default: os.TempDir.
	Dir string
	// Env names the variables of the worker that commands get too, above those
	// of the level None, which gets all. PATH is a standard one unless named.
	Env []string
	// ReadOnly are directories and files that Namespace shows too.
	ReadOnly []string
	// NoCgroup leaves control groups alone.
	NoCgroup bool
}

func (c Config) withDefaults() (Config, error) {
	if c.Level == "" {
		c.Level = None
	}
	if _, err := ParseLevel(string(c.Level)); err != nil {
		return c, err
	}
	if c.UIDs == (UIDRange{}) {
		c.UIDs = defaultUIDs
	}
	// 65534 and 4294967295 mean nobody and unchanged; below 1000 are services.
	if c.UIDs.First < 1000 || c.UIDs.Count < 1 || c.UIDs.First+c.UIDs.Count > 1<<31-1 {
		return c, fmt.Errorf("user ids from %d, %d of them: must be from 1000 to 2147483646", c.UIDs.First, c.UIDs.Count)
	}
	if c.Dir == "" {
		c.Dir = os.TempDir()
	}
	var err error
	c.Limits, err = c.Limits.withDefaults()
	return c, err
}

// Command is what to run.
type Command struct {
	Args  []string // the program, looked up in PATH, and its arguments
	Env   []string // NAME=value, above what Config.Env lets through
	Stdin []byte
}

// Result is what a command has left.
type Result struct {
	Stdout []byte
	Log    string // the end of stderr
	Exit   int    // the exit status; -1: it has none
}

// The reasons why a command was ended, or failed.
var (
	ErrTimeout    = errors.New("the command ran longer than its limit of time")
	ErrOutput     = errors.New("the command wrote too much to stdout; store large results elsewhere")
	ErrDisk       = errors.New("the command filled its directory beyond the limit")
	ErrCPU        = errors.New("the command used more CPU time than its limit")
	ErrFileSize   = errors.New("the command made a file larger than the limit")
	ErrMemory     = errors.New("the command used more memory than its limit")
	ErrProcesses  = errors.New("the command started more processes than its limit")
	ErrLeftBehind = errors.New("the command has ended, but a process that it started went on; let it wait for that process")
)

// standardPath is where programs are looked for when PATH is not let through.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// cleanEnv is the environment of a confined command.
func (b *Box) cleanEnv(home string, extra []string) []string {
	env := []string{
		"HOME=" + home, "TMPDIR=" + home, "LANG=C.UTF-8", "PATH=" + b.path(),
	}
	for _, name := range b.cfg.Env {
		if value, ok := os.LookupEnv(name); ok && name != "PATH" {
			env = append(env, name+"="+value)
		}
	}
	return append(env, extra...)
}

func (b *Box) path() string {
	if b.cfg.Level == None || slices.Contains(b.cfg.Env, "PATH") {
		return os.Getenv("PATH")
	}
	return standardPath
}

// Describe says in a line what is in force.
func (b *Box) Describe() string {
	parts := append([]string{string(b.cfg.Level)}, b.facts...)
	return strings.Join(parts, ", ")
}

// Level is the box's level.
func (b *Box) Level() Level { return b.cfg.Level }

// errLimit says how large the limit is that was reached.
func errLimit(err error, limit any) error { return fmt.Errorf("%w (%v)", err, limit) }

// errBytes is errLimit of a number of bytes.
func errBytes[N int | int64](err error, limit N) error {
	return fmt.Errorf("%w (%d bytes)", err, limit)
}

// IsLimit says whether a command failed because it has reached a limit or left
// a process behind, rather than by a decision of its own.
func IsLimit(err error) bool {
	for _, limit := range []error{ErrTimeout, ErrOutput, ErrDisk, ErrCPU, ErrFileSize, ErrMemory, ErrProcesses, ErrLeftBehind} {
		if errors.Is(err, limit) {
			return true
		}
	}
	return false
}
