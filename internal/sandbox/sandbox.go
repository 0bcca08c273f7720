package sandbox

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"osqueue/internal/limit"
)

// Level is the degree of isolation of a command. The package comment lists the
// guarantees of each level.
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

// Net is the network that a command has.
type Net string

// The networks.
const (
	NetNone Net = "none"
	NetHost Net = "host" // that of the machine, with the ports of nodes on it
)

// ParseNet reads a network as flags and files write it.
func ParseNet(text string) (Net, error) {
	if n := Net(text); n == NetNone || n == NetHost {
		return n, nil
	}
	return "", fmt.Errorf("network %q: must be none or host", text)
}

// Limits bound one command. A field that is 0 takes its default. The level None applies
// only Timeout, Output and Log.
type Limits struct {
	Timeout   time.Duration // wall clock; default: no bound except the job's
	CPU       time.Duration // CPU time of one process, in whole seconds
	Memory    int64         // bytes of address space of a process; with a control group also of the sum
	Files     int64         // open descriptors of a process
	Processes int64         // processes and threads together
	FileSize  int64         // bytes of one file
	Disk      int64         // bytes of the directory; in Namespace of /tmp and of /dev/shm each
	Output    int           // bytes of stdout; a command that writes more is ended
	Log       int           // bytes that are kept of the end of stderr
}

// DefaultLimits returns the values that replace 0 in Limits. The output fits into a
// request of 1 MiB, even as a JSON string.
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

// maxProcesses is half of the maximum of Linux: bwrap's own processes are added to a
// limit, and twice the sum must be a valid number of processes.
const maxProcesses = 2 << 20

func (l Limits) withDefaults() (Limits, error) {
	if min(l.Memory, l.Files, l.Processes, l.FileSize, l.Disk, int64(l.Output), int64(l.Log), int64(l.Timeout), int64(l.CPU)) < 0 {
		return l, fmt.Errorf("limits %+v: must not be negative", l)
	}
	l = limit.Defaults(l, DefaultLimits())
	if l.Processes > maxProcesses {
		return l, fmt.Errorf("limit of processes %d: must be at most %d", l.Processes, maxProcesses)
	}
	if l.CPU < time.Second {
		return l, fmt.Errorf("limit of CPU time %v: must be 1s or more", l.CPU)
	}
	return l, nil
}

// UIDRange is a range of user ids that no other program on the machine uses. Each
// command gets one of them, but not the first. Workers may share a range: they lock an id while it
// is in use.
type UIDRange struct {
	First, Count int
}

// defaultUIDs lie outside of the ranges that distributions use for people, services,
// containers and subordinate ids.
var defaultUIDs = UIDRange{First: 1_900_000_000, Count: 1024}

// Config configures a box.
type Config struct {
	Level  Level // default: None
	Limits Limits
	// UIDs applies only if the worker is root. Default: 1024 ids from 1900000000.
	UIDs UIDRange
	// Dir is the parent of the commands' directories. Default: os.TempDir.
	Dir string
	// Env names the variables of the worker that commands get in addition. The level
	// None passes all variables. PATH has a standard value unless it is named.
	Env []string
	// ReadOnly lists directories and files that commands may read in addition to the
	// system's: Namespace shows them, Landlock lets commands of Process reach them.
	ReadOnly []string
	// Net is the network of commands; the level None always has the machine's. Default:
	// NetNone.
	Net Net
	// NoLandlock lets commands of Process reach all files that their user may reach, and
	// RequireLandlock makes New fail where Landlock is missing.
	NoLandlock, RequireLandlock bool
	// RequireCgroup makes New fail if control groups cannot bound memory and processes.
	RequireCgroup bool
	// NoCgroup disables control groups.
	NoCgroup bool
	// CPUWeight and IOWeight are the shares of all commands of the box together, in contention,
	// against the worker and whatever else is in its control group: 1 to 10000. 0 leaves the
	// kernel's weight, 100.
	CPUWeight, IOWeight int
}

// weightMax is the largest weight of a control group.
const weightMax = 10_000

func (c Config) withDefaults() (Config, error) {
	c.Level, c.Net, c.Dir, c.UIDs = cmp.Or(c.Level, None), cmp.Or(c.Net, NetNone), cmp.Or(c.Dir, os.TempDir()), cmp.Or(c.UIDs, defaultUIDs)
	if _, err := ParseLevel(string(c.Level)); err != nil {
		return c, err
	}
	// 65534 is the overflow user, 4294967295 means unchanged, and ids below 1000 are services.
	if c.UIDs.First < 1000 || c.UIDs.Count < 2 || c.UIDs.First+c.UIDs.Count > 1<<31-1 {
		return c, fmt.Errorf("user ids from %d, %d of them: must be two or more, from 1000 to 2147483646", c.UIDs.First, c.UIDs.Count)
	}
	if _, err := ParseNet(string(c.Net)); err != nil {
		return c, err
	}
	if c.RequireCgroup && c.NoCgroup {
		return c, errors.New("control groups are both required and disabled: remove one of the two settings")
	}
	if min(c.CPUWeight, c.IOWeight) < 0 || max(c.CPUWeight, c.IOWeight) > weightMax {
		return c, fmt.Errorf("weights of CPU %d and I/O %d: must be 1 to %d, or 0 for the kernel's", c.CPUWeight, c.IOWeight, weightMax)
	}
	if c.NoCgroup && max(c.CPUWeight, c.IOWeight) > 0 {
		return c, errors.New("weights need control groups, which are disabled")
	}
	var err error
	c.Limits, err = c.Limits.withDefaults()
	return c, err
}

// Command describes the program to run.
type Command struct {
	Args  []string // the program, looked up in PATH, and its arguments
	Env   []string // NAME=value, in addition to the variables of Config.Env
	Stdin []byte
	// Stderr gets the stderr of the command as it is written, all of it, from one
	// goroutine. It must not block, and its errors are ignored. nil: it is not needed.
	Stderr io.Writer
}

// Result describes an ended command.
type Result struct {
	Stdout []byte
	Log    string // the end of stderr
	Exit   int    // the exit status; -1: the command has none
}

// Errors of Run: the limits, and the other reasons why a command fails.
var (
	ErrTimeout    = errors.New("the command ran longer than its timeout")
	ErrOutput     = errors.New("the command wrote too much to stdout; store large results elsewhere")
	ErrDisk       = errors.New("the command filled its directory beyond the limit")
	ErrCPU        = errors.New("the command used more CPU time than its limit")
	ErrFileSize   = errors.New("the command made a file larger than the limit")
	ErrMemory     = errors.New("the command used more memory than its limit")
	ErrProcesses  = errors.New("the command started more processes than its limit")
	ErrLeftBehind = errors.New("the command has ended, but a process that it started still ran; let the command wait for that process")
)

// standardPath is the PATH of commands unless Config.Env names PATH.
const standardPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// errLimit adds the value of the limit to err.
func errLimit(err error, limit any) error { return fmt.Errorf("%w (%v)", err, limit) }

// errBytes adds the value of a limit in bytes to err.
func errBytes[N int | int64](err error, limit N) error {
	return fmt.Errorf("%w (%d bytes)", err, limit)
}

// IsLimit reports whether a command failed because it reached a limit or left a process
// behind, rather than by its own exit status.
func IsLimit(err error) bool {
	limits := []error{ErrTimeout, ErrOutput, ErrDisk, ErrCPU, ErrFileSize, ErrMemory, ErrProcesses, ErrLeftBehind}
	return slices.ContainsFunc(limits, func(limit error) bool { return errors.Is(err, limit) })
}
