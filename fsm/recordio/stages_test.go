package recordio

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// numbers is a stream of numbers, which Work doubles in any order.
type numbers struct {
	read, end int
	readErr   error
	items     map[*number]bool
	added     []int
	addErr    map[int]error
}

type number struct{ n, double int }

func (s *numbers) run() error {
	s.items = make(map[*number]bool)
	return Stages[number]{
		Read: func(c *number) (bool, error) {
			s.items[c] = true
			if s.read++; s.read == s.end {
				c.n = s.read
				return false, s.readErr
			}
			c.n = s.read
			return true, nil
		},
		Work: func(c *number) {
			time.Sleep(time.Duration(rand.IntN(50)) * time.Microsecond)
			c.double = 2 * c.n
		},
		Add: func(c *number) error {
			s.added = append(s.added, c.double)
			return s.addErr[c.n]
		},
	}.Run()
}

// checkAdded checks that the numbers 1 to n were added, each once and in their order.
func (s *numbers) checkAdded(t *testing.T, n int) {
	t.Helper()
	if len(s.added) != n {
		t.Fatalf("%d items were added, want %d", len(s.added), n)
	}
	for i, double := range s.added {
		if double != 2*(i+1) {
			t.Fatalf("item %d is %d", i, double)
		}
	}
	if len(s.items) > itemsMax {
		t.Fatalf("there were %d items", len(s.items))
	}
}

func TestItemsAreAddedInOrder(t *testing.T) {
	for _, end := range []int{1, 2, itemsMax, 3000} {
		s := numbers{end: end}
		if err := s.run(); err != nil {
			t.Fatal(err)
		}
		s.checkAdded(t, end)
	}
}

// Run returns the error that comes first in the stream, and adds all items before it.
func TestTheFirstErrorIsReturned(t *testing.T) {
	errRead, errAdd, errLater := errors.New("read"), errors.New("add"), errors.New("later")
	for range 50 {
		s := numbers{end: 100, readErr: errRead}
		if err := s.run(); !errors.Is(err, errRead) {
			t.Fatalf("error %v", err)
		}
		s.checkAdded(t, 100)
		s = numbers{end: 100, readErr: errRead, addErr: map[int]error{95: errAdd, 97: errLater}}
		if err := s.run(); !errors.Is(err, errAdd) {
			t.Fatalf("error %v", err)
		}
		s.checkAdded(t, 95)
	}
}

// After an error of Add, Run stops reading a stream that has no end.
func TestReadingStopsAfterAnError(t *testing.T) {
	errAdd := errors.New("add")
	s := numbers{addErr: map[int]error{20: errAdd}}
	if err := s.run(); !errors.Is(err, errAdd) {
		t.Fatalf("error %v", err)
	}
	s.checkAdded(t, 20)
	if s.read > 20+2*itemsMax {
		t.Fatalf("%d items were read", s.read)
	}
}

// synctest fails if a goroutine is left.
func TestNoGoroutineIsLeft(t *testing.T) {
	for _, addErr := range []error{nil, errors.New("add")} {
		synctest.Test(t, func(*testing.T) {
			s := numbers{end: 100, addErr: map[int]error{50: addErr}}
			_ = s.run()
		})
	}
}

// While Add has an item, others are worked on, on a second processor.
func TestStagesRunAtTheSameTime(t *testing.T) {
	if runtime.GOMAXPROCS(0) < 2 {
		t.Skip("needs two processors")
	}
	var worked atomic.Int32
	n := 0
	err := Stages[int]{
		Read: func(*int) (bool, error) { n++; return n < itemsMax, nil },
		Work: func(*int) { worked.Add(1) },
		Add: func(*int) error {
			for end := time.Now().Add(10 * time.Second); worked.Load() < itemsMax; runtime.Gosched() {
				if time.Now().After(end) {
					return errors.New("the other items wait for the first one")
				}
			}
			return nil
		},
	}.Run()
	if err != nil {
		t.Fatal(err)
	}
}
