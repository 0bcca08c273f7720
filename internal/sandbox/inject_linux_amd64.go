package sandbox

import (
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// canRestrict reports whether restrict works on this architecture.
const canRestrict = true

var errNotInjected = errors.New("the program did not run the system calls that restrict it; 32-bit programs cannot be restricted")

// injection makes system calls in a program that is stopped at its exec, before its first
// instruction: no other process can set a filter or a Landlock domain for it, and a helper
// program in between would run under the command's limits.
type injection struct {
	pid  int
	regs unix.PtraceRegs // of the program's start
	text []byte          // of the program, where call writes its instructions
}

// syscallAndTrap is the instruction that makes a system call, followed by a breakpoint.
var syscallAndTrap = []byte{0x0f, 0x05, 0xcc}

// restrict sets what g demands for the stopped program. It must run on the thread that
// traces the program.
func restrict(pid int, g *guard) (err error) {
	in := &injection{pid: pid, text: make([]byte, len(syscallAndTrap))}
	if err := unix.PtraceGetRegs(pid, &in.regs); err != nil {
		return fmt.Errorf("read the registers: %w", err)
	}
	at := uintptr(in.regs.Rip)
	if _, err := unix.PtracePeekText(pid, at, in.text); err != nil {
		return fmt.Errorf("read the program: %w", err)
	}
	if _, err := unix.PtracePokeText(pid, at, syscallAndTrap); err != nil {
		return fmt.Errorf("change the program: %w", err)
	}
	if err := in.apply(g); err != nil {
		return err // the program is killed
	}
	if _, err := unix.PtracePokeText(pid, at, in.text); err != nil {
		return fmt.Errorf("restore the program: %w", err)
	}
	return unix.PtraceSetRegs(pid, &in.regs)
}

func (in *injection) apply(g *guard) error {
	if g.landlock {
		if err := in.call("landlock_restrict_self", unix.SYS_LANDLOCK_RESTRICT_SELF, rulesetFD, 0, 0); err != nil {
			return err
		}
		if err := in.call("close", unix.SYS_CLOSE, rulesetFD, 0, 0); err != nil {
			return err
		}
	}
	if len(g.filter) == 0 {
		return nil
	}
	// Below the stack pointer, beyond the red zone: the first pages of a stack exist.
	const head, space = 16, 256
	program := (in.regs.Rsp - space - uint64(len(g.filter))) &^ 15
	fprog := program - head
	data := make([]byte, head, head+len(g.filter))
	binary.LittleEndian.PutUint16(data, uint16(len(g.filter)/filterInstruction))
	binary.LittleEndian.PutUint64(data[8:], program)
	if _, err := unix.PtracePokeData(in.pid, uintptr(fprog), append(data, g.filter...)); err != nil {
		return fmt.Errorf("write the filter: %w", err)
	}
	return in.call("seccomp", unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, fprog)
}

// call makes one system call.
func (in *injection) call(name string, number, a, b, c uint64) error {
	regs := in.regs
	regs.Orig_rax = ^uint64(0) // the kernel must not repeat execve
	regs.Rax, regs.Rdi, regs.Rsi, regs.Rdx = number, a, b, c
	if err := unix.PtraceSetRegs(in.pid, &regs); err != nil {
		return fmt.Errorf("%s: set the registers: %w", name, err)
	}
	if err := unix.PtraceCont(in.pid, 0); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	status, err := waitStop(in.pid)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if !status.Stopped() || status.StopSignal() != unix.SIGTRAP {
		return fmt.Errorf("%s: %w", name, errNotInjected)
	}
	if err := unix.PtraceGetRegs(in.pid, &regs); err != nil {
		return fmt.Errorf("%s: read the answer: %w", name, err)
	}
	if errno := -int64(regs.Rax); errno > 0 && errno < 4096 {
		return fmt.Errorf("%s: %w", name, unix.Errno(errno))
	}
	return nil
}
