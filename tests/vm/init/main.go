//go:build linux

// Program init is the first process of the virtual machine: it mounts the usual file systems,
// runs the programs of the plan, and switches the machine off.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"osqueue/tests/vm/plan"
)

// asRunner is the argument with which the first process starts itself again.
const asRunner = "run"

func main() {
	if len(os.Args) > 1 && os.Args[1] == asRunner {
		os.Exit(runPlan())
	}
	fmt.Println(plan.Booted)
	status, err := first()
	if err != nil {
		fmt.Println("vm:", err)
		status = 1
	}
	fmt.Println(plan.ExitLine(status))
	unix.Sync() // the console, too, has to be through
	err = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	fmt.Println("vm: switch off:", err)
}

// first prepares the system and waits for the runner. It reaps all other zombies that the
// kernel assigns to the first process, because tests count them. So it cannot be the process
// that runs programs and waits for each.
func first() (status int, err error) {
	if err := prepare(); err != nil {
		return 0, err
	}
	runner, err := os.StartProcess("/proc/self/exe", []string{"init", asRunner}, &os.ProcAttr{
		Env:   []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root"},
		Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 0, fmt.Errorf("start the runner: %w", err)
	}
	for {
		var ws unix.WaitStatus
		pid, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return 0, fmt.Errorf("wait for the runner: %w", err)
		case pid != runner.Pid:
		case ws.Exited():
			return ws.ExitStatus(), nil
		default:
			return 0, fmt.Errorf("the runner was ended by %v", ws.Signal())
		}
	}
}

func runPlan() int {
	p, err := readPlan()
	if err != nil {
		fmt.Println("vm:", err)
		return 1
	}
	worst := 0
	for _, r := range p.Runs {
		began := time.Now()
		err := runOne(r)
		took := time.Since(began).Round(100 * time.Millisecond)
		if err != nil {
			worst = 1
			fmt.Printf("vm: %s: FAILED after %v: %v\n", r.Name, took, err)
			continue
		}
		fmt.Printf("vm: %s: ok, %v\n", r.Name, took)
	}
	return worst
}

func readPlan() (p plan.Plan, err error) {
	text, err := os.ReadFile(plan.File)
	if err != nil {
		return p, err
	}
	if err := json.Unmarshal(text, &p); err != nil {
		return p, fmt.Errorf("read %s: %w", plan.File, err)
	}
	if len(p.Runs) == 0 {
		return p, errors.New("the plan is empty")
	}
	return p, nil
}

func runOne(r plan.Run) error {
	ctx, cancel := context.WithTimeout(context.Background(), r.Limit)
	defer cancel()
	cmd := exec.CommandContext(ctx, r.Args[0], r.Args[1:]...)
	cmd.Env = append(os.Environ(), r.Env...)
	cmd.Dir = "/tmp"
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.SysProcAttr = &unix.SysProcAttr{Setsid: true}
	if r.Group != "" {
		dir, err := makeGroup(r.Group)
		if err != nil {
			return err
		}
		defer dir.Close()
		cmd.SysProcAttr.UseCgroupFD, cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	err := cmd.Run()
	if ctx.Err() != nil {
		return fmt.Errorf("not done within %v: %w", r.Limit, err)
	}
	return err
}

// makeGroup makes a control group as a service manager does: it delegates the controllers to
// the group.
func makeGroup(name string) (*os.File, error) {
	const root = "/sys/fs/cgroup"
	if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+memory +pids"), 0); err != nil {
		return nil, fmt.Errorf("hand the controllers down: %w", err)
	}
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the control group: %w", err)
	}
	return os.Open(dir)
}
