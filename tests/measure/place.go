package measure

import (
	"errors"
	"fmt"
	"os"
	"sync"
)

// errGaveUp is the panic by which a harness ends a measurement.
var errGaveUp = errors.New("gave up")

// Place is the directory of one measurement, and the cleanup of everything that runs in it. It
// implements the TB of tests/cluster. Do not copy it.
type Place struct {
	// Dir is the directory. Leave deletes it.
	Dir string
	// Failure is why the measurement failed. If it is not empty, a cluster prints its logs
	// during the cleanup.
	Failure string

	mu      sync.Mutex
	cleanup []func()
}

// Helper implements cluster.TB.
func (p *Place) Helper() {}

// Logf implements cluster.TB.
func (p *Place) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// Fatal implements cluster.TB.
func (p *Place) Fatal(args ...any) {
	p.Failure = fmt.Sprint(args...)
	panic(errGaveUp)
}

// Fatalf implements cluster.TB.
func (p *Place) Fatalf(format string, args ...any) { p.Fatal(fmt.Sprintf(format, args...)) }

// Failed implements cluster.TB.
func (p *Place) Failed() bool { return p.Failure != "" }

// TempDir implements cluster.TB.
func (p *Place) TempDir() string { return p.Dir }

// Cleanup implements cluster.TB.
func (p *Place) Cleanup(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cleanup = append(p.cleanup, fn)
}

// NewPlace creates the directory, in the system's directory for temporary files.
func NewPlace(prefix string) (*Place, error) {
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	return &Place{Dir: dir}, nil
}

// Leave runs the cleanup functions, the last one first, and deletes the directory. A second call
// does nothing.
func (p *Place) Leave() {
	p.mu.Lock()
	todo := p.cleanup
	p.cleanup = nil
	p.mu.Unlock()
	for i := len(todo) - 1; i >= 0; i-- {
		todo[i]()
	}
	_ = os.RemoveAll(p.Dir) // remaining files are in the system's temporary directory
}

// Guarded runs fn and returns its error, or the message with which fn called Fatal.
func (p *Place) Guarded(fn func() error) (err error) {
	defer func() {
		if r := recover(); r == errGaveUp { //nolint:errorlint // it is panicked as it is
			err = errors.New(p.Failure)
		} else if r != nil {
			panic(r)
		}
	}()
	return fn()
}
