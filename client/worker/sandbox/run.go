package sandbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// KillDelay is what a command gets between SIGTERM and SIGKILL.
const KillDelay = 2 * time.Second

// cell is where one command runs. Its methods are called by one goroutine; only
// terminate and kill are called while the program runs.
type cell interface {
	// prepare makes the program's call, without its streams.
	prepare(program string, c Command) (*exec.Cmd, error)
	// start starts it with all limits in force.
	start(cmd *exec.Cmd) error
	// terminate asks all processes to end; kill ends them.
	terminate()
	kill()
	// sweep ends what the program has left behind, and says whether there was
	// anything. It is called after the program has ended.
	sweep() (left bool)
	// explain tells of a limit that made the program end as it did; nil: none.
	explain(cmd *exec.Cmd) error
	// close gives all back that the cell has taken.
	close() error
}

// Box runs commands. Its methods are safe for concurrent use.
type Box struct {
	cfg      Config
	facts    []string       // for Describe
	under    sync.WaitGroup // commands under way
	platform                // what the system's levels need
}

// New makes a box, and for a level above None runs a trivial command in it. An
// error says what the machine lacks.
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
		return nil, errors.Join(fmt.Errorf("sandbox level %s is not possible here: %w", cfg.Level, err), b.Close())
	}
	if err := b.probe(ctx); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

const probeTime = 20 * time.Second

func (b *Box) probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	res, err := b.Run(ctx, Command{Args: []string{"/bin/sh", "-c", "echo works"}})
	if err == nil && strings.TrimSpace(string(res.Stdout)) != "works" {
		err = fmt.Errorf("a trivial command wrote %q", res.Stdout)
	}
	if err != nil {
		return fmt.Errorf("sandbox level %s is not possible here: %w: %s%s", b.cfg.Level, err, res.Log, b.advice())
	}
	return nil
}

// Run runs a command and returns when it, and in the levels above None every
// process that it has started, has ended. A status other than 0 is an
// *exec.ExitError; the end of ctx an error that wraps its cause. The result is
// there as well with an error.
func (b *Box) Run(ctx context.Context, c Command) (res Result, err error) {
	b.under.Add(1)
	defer b.under.Done()
	res.Exit = -1
	program, err := b.look(c)
	if err != nil {
		return res, err
	}
	place, err := b.open()
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
	r := &run{cell: place, cmd: cmd, limits: b.cfg.Limits}
	return r.do(ctx, c.Stdin)
}

// look finds the program of a command.
func (b *Box) look(c Command) (string, error) {
	if len(c.Args) == 0 || c.Args[0] == "" {
		return "", errors.New("the command is empty")
	}
	name := c.Args[0]
	if b.cfg.Level == None || strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	for _, dir := range filepath.SplitList(b.path()) {
		if !filepath.IsAbs(dir) {
			continue // the directory is the command's: nothing of it is a program of ours
		}
		if path, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return path, nil
		}
	}
	return "", &exec.Error{Name: name, Err: exec.ErrNotFound}
}

// Look says whether a program is there.
func (b *Box) Look(program string) error {
	_, err := b.look(Command{Args: []string{program}})
	return err
}

// run is one command under way.
type run struct {
	cell
	cmd    *exec.Cmd
	limits Limits
	out    head
	log    tail
	ends   streams
	ended  bool // because its context ended
}

func (r *run) do(ctx context.Context, stdin []byte) (Result, error) {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	if r.limits.Timeout > 0 {
		timer := time.AfterFunc(r.limits.Timeout, func() { stop(fmt.Errorf("%w, %v", ErrTimeout, r.limits.Timeout)) })
		defer timer.Stop()
	}
	r.out = head{limit: r.limits.Output, full: func() { stop(errLimit(ErrOutput, r.limits.Output)) }}
	r.log = tail{limit: r.limits.Log}
	if err := r.launch(stdin); err != nil {
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

// verdict says why the command failed, if it did; the first reason counts.
func (r *run) verdict(cause, err error, left bool) error {
	switch {
	case r.out.over:
		return errLimit(ErrOutput, r.limits.Output)
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
func (r *run) launch(stdin []byte) error {
	if err := r.ends.open(r.cmd); err != nil {
		return err
	}
	defer r.ends.closeTheirs()
	if err := r.start(r.cmd); err != nil {
		r.ends.cut()
		return fmt.Errorf("start the command: %w", err)
	}
	r.ends.pump(stdin, &r.out, &r.log)
	return nil
}

// watch observes what no limit of the system bounds, until the returned
// function is called.
func (r *run) watch(stop context.CancelCauseFunc) func() {
	w, ok := r.cell.(interface{ overDisk() bool })
	if !ok {
		return func() {}
	}
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		pause := 200 * time.Millisecond
		for {
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-done:
				timer.Stop()
				return
			}
			began := time.Now()
			if w.overDisk() {
				stop(fmt.Errorf("%w, %d bytes", ErrDisk, r.limits.Disk))
				return
			}
			pause = max(200*time.Millisecond, 10*time.Since(began)) // a tenth of a CPU at most
		}
	}()
	return func() {
		close(done)
		<-ended
	}
}

// wait waits for the program's end, which it brings about when ctx ends.
func (r *run) wait(ctx context.Context) error {
	ended := make(chan error, 1)
	go func() { ended <- r.cmd.Wait() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	r.ended = true
	r.terminate()
	timer := time.NewTimer(KillDelay)
	defer timer.Stop()
	select {
	case err := <-ended:
		r.kill() // what it has started had its time too
		return err
	case <-timer.C:
	}
	r.kill()
	return <-ended
}

// streams are the pipes to a program. They are ours rather than os/exec's, whose
// Wait waits for everybody who holds them.
type streams struct {
	ours, theirs []*os.File
	done         chan struct{}
}

func (s *streams) open(cmd *exec.Cmd) error {
	s.done = make(chan struct{}, 3)
	for i, end := range []any{&cmd.Stdin, &cmd.Stdout, &cmd.Stderr} {
		r, w, err := os.Pipe()
		if err != nil {
			s.closeTheirs()
			s.cut()
			return fmt.Errorf("make a pipe: %w", err)
		}
		if i == 0 {
			r, w = w, r
		}
		s.ours, s.theirs = append(s.ours, r), append(s.theirs, w)
		switch end := end.(type) {
		case *io.Reader:
			*end = w
		case *io.Writer:
			*end = w
		}
	}
	return nil
}

func (s *streams) pump(stdin []byte, out, log io.Writer) {
	go func() {
		_, _ = s.ours[0].Write(stdin) // a program need not read it
		s.ours[0].Close()
	}()
	for i, dst := range []io.Writer{out, log} {
		go func() {
			_, _ = io.Copy(dst, s.ours[i+1])
			s.done <- struct{}{}
		}()
	}
}

// await waits until all is read; false: somebody still holds a pipe after d.
func (s *streams) await(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	for n := range 2 {
		select {
		case <-s.done:
		case <-timer.C:
			s.cut()
			for range 2 - n {
				<-s.done
			}
			return false
		}
	}
	s.cut()
	return true
}

func (s *streams) closeTheirs() {
	for _, f := range s.theirs {
		f.Close()
	}
}

func (s *streams) cut() {
	for _, f := range s.ours {
		f.Close()
	}
}
