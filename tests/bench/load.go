package main

import (
	"sync"
	"time"

	"osqueue/tests/measure"
)

// step is the operation that a client repeats. It returns the number of jobs.
type step func(c *conn) (jobs int, err error)

// load is the work that the clients completed.
type load struct {
	rate float64         // jobs a second
	took measure.Samples // by the steps
	cost *cost           // nil if it is not known
}

// load lets clients repeat a step against the leader for a duration.
func (br *brokers) load(clients int, d time.Duration, s step) (*load, error) {
	l := new(load)
	var err error
	l.cost, err = costOf(br.Cluster, br.leader, func() (err error) {
		l.rate, l.took, err = repeatFor(br.leader.HTTP, clients, d, s)
		return err
	})
	return l, err
}

// repeatFor lets clients repeat a step for a duration, each on a connection of its own.
func repeatFor(host string, clients int, d time.Duration, s step) (perSecond float64, took measure.Samples, err error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	jobs := 0
	begin := time.Now()
	end := begin.Add(d)
	for range clients {
		wg.Go(func() {
			own, done, failed := repeat(host, end, s)
			mu.Lock()
			defer mu.Unlock()
			took = append(took, own...)
			jobs += done
			if failed != nil {
				err = failed
			}
		})
	}
	wg.Wait()
	return float64(jobs) / time.Since(begin).Seconds(), took, err
}

// repeat repeats a step until end, and runs it at least once: on a busy machine the connection
// alone may take all the time.
func repeat(host string, end time.Time, s step) (took measure.Samples, jobs int, err error) {
	c, err := dial(host)
	if err != nil {
		return nil, 0, err
	}
	defer c.close()
	for now := time.Now(); len(took) == 0 || now.Before(end); {
		n, err := s(c)
		if err != nil {
			return took, jobs, err
		}
		next := time.Now()
		took = append(took, next.Sub(now))
		now, jobs = next, jobs+n
	}
	return took, jobs, nil
}

// repeatTimes runs a step n times over one connection.
func repeatTimes(host string, n int, s step) error {
	c, err := dial(host)
	if err != nil {
		return err
	}
	defer c.close()
	for range n {
		if _, err := s(c); err != nil {
			return err
		}
	}
	return nil
}
