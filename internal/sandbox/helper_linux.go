package sandbox

import (
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// helperCommand is the hidden command that makes this program a helper.
const helperCommand = "sandbox-helper"

// The descriptors of a helper after stderr.
const (
	orderFD   = 3 // the socket to the worker
	programFD = 4 // this program, for bwrap; see namespace
	infoFD    = 5 // the pipe for what bwrap reports
)

// order is what a helper gets from the worker.
type order struct {
	Program   string
	Args, Env []string
	Limits    []rlimit
	Guard     guard
}

// rlimit is one argument of setrlimit(2).
type rlimit struct {
	Resource   int
	Soft, Hard uint64
}

// canHelp is set if the main function has called RunHelper. Otherwise this program, started
// as a helper, would do all that it does.
var canHelp bool

// RunHelper makes this process the helper of a command if a worker has started it as one, and
// does not return then. The main function of each program with boxes calls it first.
func RunHelper() {
	if len(os.Args) == 2 && os.Args[1] == helperCommand {
		fmt.Fprintf(os.Stderr, "osqueue %s: %v\n", helperCommand, help())
		os.Exit(1)
	}
	canHelp = true
}

// help obeys an order. It returns only if that fails.
func help() error {
	runtime.LockOSThread()
	debug.SetGCPercent(-1) // a short life; and no memory can be had under the limits
	unix.CloseOnExec(orderFD)
	unix.CloseOnExec(programFD)
	worker := os.NewFile(orderFD, "worker")
	var o order
	if err := gob.NewDecoder(worker).Decode(&o); err != nil {
		return fmt.Errorf("only a worker starts this command: %w", err)
	}
	program, err := unix.BytePtrFromString(o.Program)
	args, bad := syscall.SlicePtrFromStrings(o.Args)
	env, worse := syscall.SlicePtrFromStrings(o.Env)
	if err = errors.Join(err, bad, worse); err == nil {
		err = o.Guard.apply()
	}
	if _, failed := worker.Write(reply(err)); err != nil || failed != nil {
		return errors.Join(err, failed)
	}
	if _, err := io.ReadFull(worker, make([]byte, 1)); err != nil {
		return fmt.Errorf("the worker does not start the program: %w", err)
	}
	err = setLimits(o.Limits)
	if err == nil {
		// syscall.Exec would allocate memory, which the limits forbid.
		_, _, errno := unix.RawSyscall(unix.SYS_EXECVE, uintptr(unsafe.Pointer(program)), uintptr(unsafe.Pointer(&args[0])), uintptr(unsafe.Pointer(&env[0]))) //nolint:gosec // the call takes pointers
		err = errno
	}
	_, _ = worker.Write(reply(err))
	return err
}

// setLimits sets the limits, or stricter ones that the worker has itself. The CPU time that the
// helper has used is its own; it counts in whole seconds, rounded up, as the limit does. The helper has
// all that it needs before it sets the first limit: from there on it may get neither memory nor threads.
func setLimits(limits []rlimit) error {
	var used unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &used); err != nil {
		return fmt.Errorf("ask for the CPU time: %w", err)
	}
	set := make([]unix.Rlimit, len(limits))
	for i, l := range limits {
		if l.Resource == unix.RLIMIT_CPU {
			seconds := uint64(usedSeconds(used))
			l.Soft, l.Hard = l.Soft+seconds, l.Hard+seconds
		}
		var has unix.Rlimit
		if err := unix.Getrlimit(l.Resource, &has); err != nil {
			return fmt.Errorf("read limit %d: %w", l.Resource, err)
		}
		set[i] = unix.Rlimit{Cur: min(l.Soft, has.Max), Max: min(l.Hard, has.Max)}
	}
	for i, l := range limits {
		if err := unix.Setrlimit(l.Resource, &set[i]); err != nil {
			return fmt.Errorf("set limit %d to %d: %w", l.Resource, l.Soft, err)
		}
	}
	return nil
}

// usedSeconds returns the CPU time, in seconds, rounded up.
func usedSeconds(used unix.Rusage) int64 {
	return (used.Utime.Nano() + used.Stime.Nano() + int64(time.Second) - 1) / int64(time.Second)
}

// A reply is the number of an error, 0 for none, and the text of an error without a number.

func reply(err error) []byte {
	var errno unix.Errno
	switch {
	case err == nil:
		return []byte{0}
	case errors.As(err, &errno):
		return append([]byte{byte(errno)}, err.Error()...)
	}
	return append([]byte{0}, err.Error()...)
}

// readReply reads a reply of the helper. It returns io.EOF if the helper has ended, or runs
// the program.
func readReply(helper io.Reader) error {
	buf := make([]byte, 4096)
	n, err := helper.Read(buf)
	switch {
	case errors.Is(err, unix.ECONNRESET):
		return io.EOF
	case err != nil:
		return err
	case buf[0] != 0:
		return &helperError{unix.Errno(buf[0]), string(buf[1:n])}
	case n > 1:
		return errors.New(string(buf[1:n]))
	}
	return nil
}

// helperError is an error of the helper that has a number.
type helperError struct {
	errno unix.Errno
	text  string
}

func (e *helperError) Error() string { return e.text }
func (e *helperError) Unwrap() error { return e.errno }
