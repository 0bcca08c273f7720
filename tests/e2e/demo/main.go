package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// options are the flags.
type options struct {
	binary  string
	root    string
	workers int
	kill    float64
	timeout time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.binary, "osqueue", filepath.Join("bin", "osqueue"), "the program")
	flag.StringVar(&o.root, "root", "", "where to look for .go files (default: the standard library)")
	flag.IntVar(&o.workers, "workers", 2, "worker processes")
	flag.Float64Var(&o.kill, "kill", 0.4, "part of the jobs that is done when the leader is killed")
	flag.DurationVar(&o.timeout, "timeout", 5*time.Minute, "when to give up")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	ctx, cancel := context.WithTimeoutCause(ctx, o.timeout, fmt.Errorf("not done after %v", o.timeout))
	err := run(ctx, o)
	cancel()
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "demo: FAILED:", err)
		os.Exit(1)
	}
}

// run runs the demo from the empty directory to the verdict.
func run(ctx context.Context, o options) error {
	root, err := sourceRoot(ctx, o.root)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "osqueue-demo-")
	if err != nil {
		return err
	}
	err = inDir(ctx, o, root, dir)
	if err != nil {
		return fmt.Errorf("%w\n(logs are in %s)", err, dir)
	}
	return os.RemoveAll(dir)
}

// inDir starts everything, and stops it in any case.
func inDir(ctx context.Context, o options, root, dir string) (err error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	say("counting the words of the .go files in %s with find and wc", root)
	e := &evidence{}
	if e.words, err = countWords(ctx, root); err != nil {
		return err
	}
	c, err := startCluster(ctx, o.binary, dir, fail)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.stop()) }()
	workers, err := startWorkers(o, c.servers, dir, fail)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, workers.stop()) }()

	r, err := work(ctx, o, root, c, e)
	if err != nil {
		return err
	}
	if err := workers.stop(); err != nil { // their records are whole now
		return err
	}
	if e.claims, err = workers.claims(); err != nil {
		return err
	}
	if err := e.read(ctx, c.client); err != nil {
		return err
	}
	r.print(e)
	if err := e.check(); err != nil {
		return err
	}
	say("every job was done once; the sums are equal")
	return nil
}

// work waits until the workers have completed the jobs, and kills the leader meanwhile.
func work(ctx context.Context, o options, root string, c *devCluster, e *evidence) (r report, err error) {
	r.workers = o.workers
	began := time.Now()
	if e.submitted, err = submit(ctx, c.client, root); err != nil {
		return r, err
	}
	r.submitTook = time.Since(began)
	say("submitted %d jobs", len(e.submitted))
	if err := c.awaitCompleted(ctx, int(o.kill*float64(len(e.submitted)))); err != nil {
		return r, err
	}
	if r.failover, err = c.killLeader(ctx); err != nil {
		return r, err
	}
	if err := c.awaitCompleted(ctx, len(e.submitted)); err != nil {
		return r, err
	}
	r.took = time.Since(began)
	return r, c.awaitAllUp(ctx)
}

// sourceRoot returns the folder to search, without symbolic links: find does not
// follow them.
func sourceRoot(ctx context.Context, root string) (string, error) {
	if root == "" {
		out, err := exec.CommandContext(ctx, "go", "env", "GOROOT").Output()
		if err != nil {
			return "", fmt.Errorf("go env GOROOT: %w", err)
		}
		root = filepath.Join(strings.TrimSpace(string(out)), "src")
	}
	root, err := filepath.EvalSymlinks(root)
	if err != nil {
		return "", err
	}
	return filepath.Abs(root)
}

func say(format string, args ...any) { fmt.Printf("demo: "+format+"\n", args...) }
