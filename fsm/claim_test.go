package fsm_test

import (
	"runtime"
	"testing"
	"time"
	"unsafe"

	"osqueue/fsm"
)

// A remembered claim does not keep the payload of a job that is gone, which has one allocation
// with its id.
func TestClaimsKeepNoPayload(t *testing.T) {
	m := fsm.New()
	id := benchID(1)
	freed := make(chan struct{})
	func() { // nothing on the stack of the test keeps the job
		apply(t, m, 1000, enqueue(id))
		runtime.AddCleanup(unsafe.StringData(m.Job(id).ID), func(freed chan struct{}) { close(freed) }, freed)
		j := apply(t, m, 1001, claimAs("w", "request", 1))[0].Jobs[0]
		apply(t, m, 1002, complete("w", id, j.Execution().Token))
		apply(t, m, 1003, changeOf(fsm.DeleteJobs, id))
		apply(t, m, 1004) // the machine forgets the events of the entry before
	}()
	if m.Job(id) != nil || !m.Remembers("w", "request") {
		t.Fatal("the job is there, or the claim is not")
	}
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		runtime.GC()
		select {
		case <-freed:
			runtime.KeepAlive(m)
			return
		default:
			if time.Now().After(end) {
				t.Fatal("the payload is still in memory")
			}
		}
	}
}
