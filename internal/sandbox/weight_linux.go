package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// setWeights sets the weights of the group of all commands against the other groups in the
// worker's own, above all that of the worker itself. fact describes them for Box.Describe; 0
// leaves the kernel's weight.
func (g *cgroups) setWeights(cpu, io int) (fact string, err error) {
	if cpu > 0 {
		fact = fmt.Sprintf(", CPU weight %d", cpu)
		err = everyHome.weigh("cpu")
		if err == nil {
			err = writeWeight(g.parent, strconv.Itoa(cpu), "cpu.weight")
		}
	}
	if io > 0 && err == nil {
		fact += fmt.Sprintf(", I/O weight %d", io)
		err = everyHome.weigh("io")
		if err == nil { // io.weight is there with iocost, the other one with the scheduler BFQ
			err = writeWeight(g.parent, "default "+strconv.Itoa(io), "io.weight", "io.bfq.weight")
		}
	}
	if err != nil {
		return fmt.Sprintf(" without the weights of the control group (%v)", err), err
	}
	return fact, nil
}

// writeWeight writes to the first of the files that exists.
func writeWeight(dir, value string, files ...string) error {
	for _, name := range files {
		err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0)
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, fs.ErrPermission) { // cgroupfs makes no files
			return err
		}
	}
	return fmt.Errorf("the kernel has no %s", strings.Join(files, " or "))
}

// weigh enables a controller of weights for the groups below the worker's own.
func (h *home) weigh(controller string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lacks != nil {
		return h.lacks
	}
	file := filepath.Join(h.dir, "cgroup.subtree_control")
	have, err := words(file)
	if err != nil || have[controller] {
		return err
	}
	if err := os.WriteFile(file, []byte("+"+controller), 0); err != nil {
		return fmt.Errorf("enable the controller %s: %w", controller, err)
	}
	return nil
}
