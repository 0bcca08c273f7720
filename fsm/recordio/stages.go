package recordio

import (
	"cmp"
	"runtime"
	"sync"
	"sync/atomic"
)

const (
	itemsMax = 8
	// workersMax bounds the goroutines of Work. Read and Add are serial, so more would wait for them.
	workersMax = 4
)

// Stages process a stream of items, such as chunks of records, at the same time. An item is used again
// after Add has returned, with its content.
//
//	Read    in the goroutine that calls Run      fills an item
//	Work    in one goroutine for each processor  processes an item, at the same time as others
//	Add     in one goroutine                     takes the items in the order of Read
type Stages[T any] struct {
	Read func(*T) (more bool, err error)
	Work func(*T)
	Add  func(*T) error
}

type entry[T any] struct {
	item   T
	worked chan struct{} // a worker sends, adder receives; capacity 1
}

type run[T any] struct {
	Stages[T]
	free, todo, inTurn chan *entry[T]
	made               int
	failed             atomic.Bool
}

// Run processes items until Read returns no more or an error. An item with which Read returns false or an
// error is processed as well. Run returns the first error in the order of the stream: an error of Add,
// or the one of Read.
//
// Run starts all goroutines of the stages, and they end before Run returns. There are at most itemsMax
// items, and each channel has room for all of them. So only Read waits for a later stage: for an item
// that Add has returned. After an error Add is not called again, but the items are returned until Run
// notices and stops reading.
func (s Stages[T]) Run() error {
	r := &run[T]{
		Stages: s,
		free:   make(chan *entry[T], itemsMax),
		todo:   make(chan *entry[T], itemsMax),
		inTurn: make(chan *entry[T], itemsMax),
	}
	var goroutines sync.WaitGroup
	var addErr error
	for range min(runtime.GOMAXPROCS(0), workersMax) {
		goroutines.Go(r.work)
	}
	goroutines.Go(func() { addErr = r.add() })
	readErr := r.read()
	close(r.todo)
	close(r.inTurn)
	goroutines.Wait()
	return cmp.Or(addErr, readErr)
}

func (r *run[T]) read() error {
	for more := true; more && !r.failed.Load(); {
		e := r.entry()
		var err error
		more, err = r.Read(&e.item)
		r.todo <- e
		r.inTurn <- e
		if err != nil {
			return err
		}
	}
	return nil
}

// entry returns an entry that no stage uses.
func (r *run[T]) entry() *entry[T] {
	select {
	case e := <-r.free:
		return e
	default:
	}
	if r.made < itemsMax {
		r.made++
		return &entry[T]{worked: make(chan struct{}, 1)}
	}
	return <-r.free
}

func (r *run[T]) work() {
	for e := range r.todo {
		r.Work(&e.item)
		e.worked <- struct{}{}
	}
}

func (r *run[T]) add() (err error) {
	for e := range r.inTurn {
		<-e.worked
		if err == nil {
			if err = r.Add(&e.item); err != nil {
				r.failed.Store(true)
			}
		}
		r.free <- e
	}
	return err
}
