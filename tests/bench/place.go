package main

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// errGaveUp ends a section from within the harness.
var errGaveUp = errors.New("gave up")

// place has the directory of a section's cluster; it is the harness's TB.
type place struct {
	dir     string
	failure string

	mu      sync.Mutex
	cleanup []func()
}

// Helper implements cluster.TB.
func (p *place) Helper() {}

// Logf implements cluster.TB.
func (p *place) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements cluster.TB.
func (p *place) Fatal(args ...any) {
	p.failure = fmt.Sprint(args...)
	panic(errGaveUp)
}

// Fatalf implements cluster.TB.
func (p *place) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// Failed implements cluster.TB.
func (p *place) Failed() bool { return p.failure != "" }

// TempDir implements cluster.TB.
func (p *place) TempDir() string { return p.dir }

// Cleanup implements cluster.TB.
func (p *place) Cleanup(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanup = append(p.cleanup, fn)
}

// leave undoes everything, last things first, and deletes the directory. A
// second call finds nothing left to do.
func (p *place) leave() {
	p.mu.Lock()
	todo := p.cleanup
	p.cleanup = nil
	p.mu.Unlock()
	for i := len(todo) - 1; i >= 0; i-- {
		todo[i]()
	}
	_ = os.RemoveAll(p.dir) // remaining files are in the system's temporary directory
}

// guarded runs fn, in which the harness may give up.
func (p *place) guarded(fn func() error) (err error) {
	defer func() {
		if r := recover(); r == errGaveUp { //nolint:errorlint // it is panicked as it is
			err = errors.New(p.failure)
		} else if r != nil {
			panic(r)
		}
	}()
	return fn()
}
