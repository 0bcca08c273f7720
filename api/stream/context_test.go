package stream

import (
	"context"
	"errors"
	"sync"
	"testing"
)

type contextKey struct{}

func TestRequestContextKeepsTheContract(t *testing.T) {
	c := &requestContext{parent: context.WithValue(t.Context(), contextKey{}, "v")}
	child, stop := context.WithCancel(c)
	defer stop()
	other, stopOther := context.WithCancel(c)
	stopOther()
	var calls sync.WaitGroup
	calls.Add(1)
	context.AfterFunc(c, calls.Done)
	unwanted := context.AfterFunc(c, func() { t.Error("a function that was stopped ran") })
	if !unwanted() || unwanted() {
		t.Error("a stop does not report whether it came in time")
	}
	if c.Err() != nil || child.Err() != nil || child.Value(contextKey{}) != "v" || other.Err() == nil {
		t.Errorf("before its end: %v, %v, %v", c.Err(), child.Err(), child.Value(contextKey{}))
	}
	done := c.Done()
	c.cancel()
	c.cancel() // again, without harm
	<-done
	<-child.Done()
	calls.Wait()
	if !errors.Is(c.Err(), context.Canceled) || !errors.Is(child.Err(), context.Canceled) {
		t.Errorf("after its end: %v, %v", c.Err(), child.Err())
	}
	calls.Add(1)
	if stop := context.AfterFunc(c, calls.Done); stop() {
		t.Error("a function was stopped that had to run at once")
	}
	calls.Wait()
}

func TestRequestContextEndsBeforeAnyoneAsks(t *testing.T) {
	c := &requestContext{parent: t.Context()}
	c.cancel()
	<-c.Done()
}
