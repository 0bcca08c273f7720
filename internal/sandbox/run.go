package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// KillDelay is the time between SIGTERM and SIGKILL.
const KillDelay = 2 * time.Second

// cell is the place of one command. One goroutine calls its methods; only terminate and
// kill may run while wait runs.
type cell interface {
	// prepare returns the call of the program, without its streams.
	prepare(program string, c Command) (*exec.Cmd, error)
	// start starts the program with all limits in force. It gives up when ctx ends.
	start(ctx context.Context, cmd *exec.Cmd) error
	// wait waits for the program's end.
	wait(cmd *exec.Cmd) error
	// terminate sends SIGTERM to all processes; kill kills them.
	terminate()
	kill()
	// sweep ends the processes that the program has left behind, and reports whether
	// there were any. It is called after the program has ended.
	sweep() (left bool)
	// explain returns an error for the limit that ended the program, or nil.
	explain(cmd *exec.Cmd) error
	// close frees all resources of the cell.
	close() error
}

// Box runs commands. Its methods are safe for concurrent use.
type Box struct {
	cfg      Config
	facts    []string       // for Describe
	under    sync.WaitGroup // running commands
	programs sync.Map       // the cache of find: name to path
	platform                // the part for the levels above None
}

// New returns a box. For a level above None it runs a trivial command in the box first,
// and fails with an error that names the feature that the machine lacks.
func New(ctx context.Context, cfg Config) (*Box, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	b := &Box{cfg: cfg}
	if cfg.Level == None {
		return b, nil
	}
	if err := b.setUp(); err != nil {
		return nil, errors.Join(fmt.Errorf("this machine does not support the sandbox level %s: %w", cfg.Level, err), b.Close())
	}
	if err := b.prove(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

const probeTime = time.Minute

// prove runs a trivial command. If the command fails in a control group, prove tries
// again without one, because no level promises control groups.
func (b *Box) prove(ctx context.Context) error {
	err := b.probe(ctx)
	if err != nil && b.leaveGroups(err) {
		err = b.probe(ctx)
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the check of the sandbox level %s did not end within %v; this machine may be overloaded: %w", b.cfg.Level, probeTime, err)
	case err != nil:
		return fmt.Errorf("this machine does not support the sandbox level %s: %w%s", b.cfg.Level, err, b.advice())
	}
	return nil
}

func (b *Box) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	// The command makes a file, so prove also checks that the worker can remove it.
	res, err := b.Run(ctx, Command{Args: []string{"/bin/sh", "-c", ": >f && echo works"}})
	if err == nil && strings.TrimSpace(string(res.Stdout)) != "works" {
		err = fmt.Errorf("the test command wrote %q; expected \"works\"", res.Stdout)
	}
	if err != nil && res.Log != "" {
		err = fmt.Errorf("%w: %s", err, res.Log)
	}
	return err
}

// Run runs a command. It returns when the command has ended and, in the levels above
// None, every process that the command has started. A status other than 0 is an
// *exec.ExitError. If ctx ends, the error wraps its cause. Run returns the result also
// with an error.
func (b *Box) Run(ctx context.Context, c Command) (res Result, err error) {
	b.under.Add(1)
	defer b.under.Done()
	res.Exit = -1
	program, err := b.look(c)
	if err != nil {
		return res, err
	}
	place, err := b.open(ctx)
	if err != nil {
		return res, err
	}
	defer func() {
		if failed := place.close(); err == nil {
			err = failed
		}
	}()
	cmd, err := place.prepare(program, c)
	if err != nil {
		return res, err
	}
	r := &run{cell: place, cmd: cmd, limits: b.cfg.Limits, log: tail{limit: b.cfg.Limits.Log, copy: c.Stderr}}
	return r.do(ctx, c.Stdin)
}

// look finds the program of a command. Like a shell, it remembers the path until the
// program is gone.
func (b *Box) look(c Command) (string, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return "", errors.New("the command is empty")
	}
	name := c.Args[0]
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	if known, ok := b.programs.Load(name); ok {
		if path, err := exec.LookPath(known.(string)); err == nil { // it has nothing else
			return path, nil
		}
	}
	path, err := b.find(name)
	if err == nil {
		b.programs.Store(name, path)
	}
	return path, err
}

// find looks for a program in the directories of the path.
func (b *Box) find(name string) (string, error) {
	if b.cfg.Level == None {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(b.path()) {
		if !filepath.IsAbs(dir) {
			continue // a relative directory would be the command's own, and must not provide programs
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Look returns an error if the program does not exist.
func (b *Box) Look(program string) error {
	_, err := b.look(Command{Args: []string{program}})
	return err
}

// run is one running command.
type run struct {
	cell
	cmd    *exec.Cmd
	limits Limits
	out    head
	log    tail
	ends   streams
	ended  bool // whether it was ended because its context ended
}

func (r *run) do(ctx context.Context, stdin []byte) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if r.limits.Timeout > 0 {
		timer := time.AfterFunc(r.limits.Timeout, func() { stop(fmt.Errorf("%w, %v", ErrTimeout, r.limits.Timeout)) })
		defer timer.Stop()
	}
	r.out = head{limit: r.limits.Output, full: func() { stop(errBytes(ErrOutput, r.limits.Output)) }}
	if err := r.launch(ctx, stdin); err != nil {
		return Result{Exit: -1}, err
	}
	unwatch := r.watch(stop)
	err := r.wait(ctx)
	unwatch()
	cause := context.Cause(ctx)
	left := r.sweep()
	if !r.ends.await(KillDelay) {
		left = true
		r.kill()
		r.ends.cut()
	}
	res := Result{Stdout: r.out.buf.Bytes(), Log: r.log.text(), Exit: r.cmd.ProcessState.ExitCode()}
	return res, r.verdict(cause, err, left)
}

// verdict returns the error of the command, or nil. If several limits were reached, the
// first one counts.
func (r *run) verdict(cause, err error, left bool) error {
	switch {
	case r.out.over:
		return errBytes(ErrOutput, r.limits.Output)
	case r.ended:
		return fmt.Errorf("the command was ended: %w", cause)
	}
	if err != nil {
		if why := r.explain(r.cmd); why != nil {
			return fmt.Errorf("%w (%w)", why, err)
		}
		return err
	}
	if left {
		return ErrLeftBehind
	}
	return nil
}

// launch connects the streams and starts the program.
func (r *run) launch(ctx context.Context, stdin []byte) error {
	if err := r.ends.open(r.cmd); err != nil {
		return err
	}
	defer r.ends.closeTheirs()
	if err := r.start(ctx, r.cmd); err != nil {
		r.ends.cut()
		return fmt.Errorf("start the command: %w", err)
	}
	r.ends.pump(stdin, &r.out, &r.log)
	return nil
}

// watch checks the limits that the kernel does not enforce, until the caller calls the
// returned function.
func (r *run) watch(stop context.CancelCauseFunc) func() {
	w, ok := r.cell.(interface {
		overDisk(done <-chan struct{}) error
	})
	if !ok {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pause := 200 * time.Millisecond
		for {
			select {
			case <-time.After(pause):
			case <-done:
				return
			}
			began := time.Now()
			if err := w.overDisk(done); err != nil {
				stop(err)
				return
			}
			pause = max(200*time.Millisecond, 10*time.Since(began)) // at most a tenth of a CPU
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// wait waits for the program's end. When ctx ends, it ends the program.
func (r *run) wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- r.cell.wait(r.cmd) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	r.ended = true
	r.terminate()
	select {
	case err := <-ended:
		r.kill() // the other processes had the same delay
		return err
	case <-time.After(KillDelay):
	}
	r.kill()
	return <-ended
}

// cleanEnv returns the environment of a confined command.
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

// Describe returns one line about the level and its parts in force.
func (b *Box) Describe() string {
	parts := append([]string{string(b.cfg.Level)}, b.facts...)
	return strings.Join(parts, ", ")
}

// Level returns the level of the box.
func (b *Box) Level() Level { return b.cfg.Level }
