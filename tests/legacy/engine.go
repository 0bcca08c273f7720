package legacy

import (
	"context"
	"errors"
	"sync"
	"time"

	"osqueue/storage"
)

// errCAS is returned to callers when every attempt lost to another writer.
var errCAS = errors.New("CASConflictError")

// tries is the number of attempts for a pass, and backoff the wait before the second one.
// The wait grows with every attempt.
const (
	tries   = 6
	backoff = 50 * time.Millisecond
)

// operation changes a document. Its caller gets the answer after the document is stored.
type operation func(d *parsed, now float64) error

// waiting is an operation whose caller waits for the answer.
type waiting struct {
	op   operation
	done chan error
}

// engine applies operations to the document: all that are waiting share one write. One
// goroutine, run, makes the passes.
type engine struct {
	cfg    Config
	bucket storage.Bucket
	wake   chan struct{}

	mu      sync.Mutex
	waiting []waiting
	ended   bool
	text    []byte          // the last version that was stored or read
	version storage.Version // of text
}

func newEngine(cfg Config, b storage.Bucket) *engine {
	return &engine{cfg: cfg, bucket: b, wake: make(chan struct{}, 1)}
}

// load reads the document.
func (e *engine) load(ctx context.Context) error {
	text, v, err := load(ctx, e.bucket)
	if err == nil {
		_, err = e.cfg.parse(text)
	}
	if err != nil {
		return err
	}
	e.keep(text, v)
	return nil
}

func (e *engine) keep(text []byte, v storage.Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.text, e.version = text, v
}

// state returns the last committed document.
func (e *engine) state() ([]byte, storage.Version) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.text, e.version
}

// errEnded is returned to callers when the broker ends.
var errEnded = errors.New("the broker has ended")

// submit returns after the operation is stored.
func (e *engine) submit(op operation) error {
	w := waiting{op: op, done: make(chan error, 1)}
	e.mu.Lock()
	if e.ended {
		e.mu.Unlock()
		return errEnded
	}
	e.waiting = append(e.waiting, w)
	e.mu.Unlock()
	select {
	case e.wake <- struct{}{}:
	default:
	}
	return <-w.done
}

// run makes passes until ctx ends.
func (e *engine) run(ctx context.Context) {
	for {
		select {
		case <-e.wake:
			batch := e.take(false)
			answer(batch, e.pass(ctx, batch))
		case <-ctx.Done():
			answer(e.take(true), errEnded)
			return
		}
	}
}

func (e *engine) take(last bool) []waiting {
	e.mu.Lock()
	defer e.mu.Unlock()
	batch := e.waiting
	e.waiting, e.ended = nil, last
	return batch
}

func answer(batch []waiting, err error) {
	for _, w := range batch {
		w.done <- err
	}
}

// pass stores a whole batch in one write, or nothing of it.
func (e *engine) pass(ctx context.Context, batch []waiting) error {
	for try := range tries {
		text, version := e.state()
		next, err := e.apply(text, batch)
		if err != nil {
			return err
		}
		w := e.bucket.PutIfMatch(ctx, key, next, version)
		switch w.Outcome {
		case storage.Committed:
			e.keep(next, w.Version)
			return nil
		case storage.Unknown:
			return w.Err
		}
		time.Sleep(backoff * time.Duration(try+1))
		if err := e.load(ctx); err != nil {
			return err
		}
	}
	return errCAS
}

// apply returns the document after expiry and the batch.
func (e *engine) apply(text []byte, batch []waiting) ([]byte, error) {
	d, err := e.cfg.parse(text)
	if err != nil {
		return nil, err
	}
	now := float64(time.Now().UnixMilli())
	if err := d.expire(now, float64(e.cfg.JobTimeout.Milliseconds())); err != nil {
		return nil, err
	}
	for _, w := range batch {
		if err := w.op(d, now); err != nil {
			return nil, err
		}
	}
	return stringify(d.object), nil
}
