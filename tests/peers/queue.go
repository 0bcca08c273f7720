package main

import (
	"context"
	"errors"
	"time"

	"osqueue/tests/measure"
)

// system is one kind of queue and its client.
type system struct {
	name string
	// check returns an error with the reason if the system cannot run on this machine. It is nil
	// for a system that always can.
	check func() error
	// start starts servers without data, which end when the place is left.
	start func(*measure.Place) (queue, error)
}

func (s system) String() string { return s.name }

// systems are all systems, in the order of the report.
var systems = []system{
	{name: "osqueue", start: startOsqueue},
	{name: "osqueue-http", start: startPlain},
	{name: "nats", check: checkNATS, start: startNATS},
}

// queue is a running system. Its methods are safe for concurrent use.
type queue interface {
	// roles returns the server processes.
	roles() []role
	// newCaller returns a client for one caller of n.
	newCaller(i, n int) (caller, error)
}

// role is the name of a role and the server processes in it.
type role struct {
	name string
	pids []int
}

// caller is a client that one goroutine uses.
type caller interface {
	enqueue(ctx context.Context, payload []byte) error
	// enqueueBatch enqueues several jobs with one call.
	enqueueBatch(ctx context.Context, payloads [][]byte) error
	// claim claims a job. It returns errNoJob if none is available within about a second.
	claim(ctx context.Context) (job, error)
	close()
}

// job is a claimed job.
type job struct {
	payload  []byte
	complete func(ctx context.Context) error
	// completeAndClaim completes the job and claims the next one with one call. It returns errNoJob if
	// none is available. It is nil in systems without such a call.
	completeAndClaim func(ctx context.Context) (job, error)
}

// handlers receive what workers do, concurrently.
type handlers struct {
	taken     func(payload []byte) // a worker has the job
	completed func()               // the job is completed, as far as the client can know it
}

// counter is a queue that counts its log entries.
type counter interface {
	entries() (uint64, error)
}

var errNoJob = errors.New("no job is available")

// claimWait is the longest wait of a claim.
const claimWait = time.Second
