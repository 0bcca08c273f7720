package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"osqueue/tests/measure"
)

// The limits of the life of a server.
const (
	startLimit = 30 * time.Second
	stopLimit  = 5 * time.Second // after it, SIGKILL
)

// launch starts a server that ends when the place is left. It writes the output to NAME.log in
// the directory of the place.
func launch(p *measure.Place, name string, cmd *exec.Cmd) (pid int, err error) {
	path := filepath.Join(p.Dir, name+".log")
	log, err := os.Create(path)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	ended := make(chan struct{})
	go func() {
		_ = cmd.Wait() // it ends by a signal
		close(ended)
	}()
	p.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		select {
		case <-ended:
		case <-time.After(stopLimit):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	return cmd.Process.Pid, nil
}

// eventually repeats fn until it succeeds, for at most startLimit.
func eventually(what string, fn func() error) error {
	for end := time.Now().Add(startLimit); ; time.Sleep(20 * time.Millisecond) {
		err := fn()
		if err == nil {
			return nil
		}
		if time.Now().After(end) {
			return fmt.Errorf("%s within %v: %w", what, startLimit, err)
		}
	}
}

var errNoPids = errors.New("no server process is known")
