package cluster

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"osqueue/tests/measure"
)

// shared are the clusters of this process that tests share, by their options.
var shared = struct {
	mu  sync.Mutex
	all map[string]*sharedCluster
}{all: make(map[string]*sharedCluster)}

// sharedCluster is a cluster that lives until the process ends.
type sharedCluster struct {
	start sync.Once
	err   error // why it could not be started
	place *measure.Place
	whole *Cluster // nil: there is an err
	pids  []int    // of the nodes

	mu       sync.Mutex
	views    int
	harmedBy string // the first test after which it was not healthy
}

// NamedTB is a TB with the name of its test.
type NamedTB interface {
	TB
	Name() string
}

// Share returns a view of the cluster with these options that all tests of the process use; the first
// one starts it. The view has a client and workers of its own, and ends with the test. The test uses
// names that Own has made, and neither stops nor pauses a node. After the test the cluster must be
// healthy: all nodes run, and one leads. TestMain must run the tests with Sharing.
func Share(t NamedTB, opt Options) *Cluster {
	t.Helper()
	key := fmt.Sprintf("%+v", opt)
	shared.mu.Lock()
	s := shared.all[key]
	if s == nil {
		s = &sharedCluster{}
		shared.all[key] = s
	}
	shared.mu.Unlock()
	s.start.Do(func() { s.err = s.open(opt) })
	if s.err != nil {
		t.Fatalf("the shared cluster could not be started: %v", s.err)
	}
	return s.view(t)
}

// open starts the cluster.
func (s *sharedCluster) open(opt Options) (err error) {
	if s.place, err = measure.NewPlace("osqueue-shared-"); err != nil {
		return err
	}
	var c *Cluster
	if err := s.place.Guarded(func() error { c = Start(s.place, opt); return nil }); err != nil {
		s.place.Leave()
		return err
	}
	for _, n := range c.Nodes {
		s.pids = append(s.pids, n.Pid())
	}
	c.shared = true
	s.whole = c
	return nil
}

// view returns the cluster for one test.
func (s *sharedCluster) view(t NamedTB) *Cluster {
	t.Helper()
	s.mu.Lock()
	s.views++
	number, harmedBy := s.views, s.harmedBy
	s.mu.Unlock()
	if harmedBy != "" {
		t.Fatalf("the shared cluster was harmed by %s", harmedBy)
	}
	w := s.whole
	v := &Cluster{
		tb: t, dir: t.TempDir(), opt: w.opt, net: w.net, binary: w.binary, Nodes: w.Nodes, secure: w.secure, nodeBucket: w.nodeBucket,
		suffix: fmt.Sprintf("-%s-%d", strings.ReplaceAll(t.Name(), "/", "-"), number),
	}
	v.Client = v.NewClient()
	before := make([]int, len(w.Nodes)) // sizes of the logs
	for i, n := range w.Nodes {
		before[i] = len(n.Log())
	}
	t.Cleanup(func() {
		v.endClients()
		err := s.health(t.Name())
		if t.Failed() || err != nil {
			for i, n := range w.Nodes {
				t.Logf("log of %s since the start of the test, also of tests that ran at the same time:\n%s", n.Name, lastLines(n.Log()[before[i]:], 60))
			}
			v.logWorkers()
		}
		if err != nil {
			t.Fatalf("the shared cluster is not healthy after the test: %v", err)
		}
	})
	return v
}

// health returns an error if a node has ended, or none leads, and records the test after which that was so.
func (s *sharedCluster) health(test string) error {
	var err error
	for i, n := range s.whole.Nodes {
		if pid := n.Pid(); pid != s.pids[i] {
			err = errors.Join(err, fmt.Errorf("%s has ended, or was started again", n.Name))
		}
	}
	if err == nil {
		err = Poll(LeaderTimeout, func() error {
			_, err := s.whole.Leader()
			return err
		})
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil && s.harmedBy == "" {
		s.harmedBy = test
	}
	return err
}

// end stops the nodes, each of which must end gracefully.
func (s *sharedCluster) end() error {
	if s.whole == nil {
		return nil
	}
	defer s.place.Leave()
	s.whole.shared = false
	if s.harmedBy != "" { // that test has failed
		return nil
	}
	if err := s.health("the last test"); err != nil {
		return err
	}
	return s.place.Guarded(func() error { s.whole.StopAll(); return nil })
}

// Own returns a name that no other test uses on a shared cluster, for a type, a job, a worker or a limit. A
// cluster of one test has all names to itself, so Own returns base there.
func (c *Cluster) Own(base string) string { return base + c.suffix }

// Sharing runs the tests of M, and ends the clusters that they share. The run fails if one of them is not healthy
// or does not end gracefully, and if a process is left that the tests have started.
type Sharing struct{ M interface{ Run() int } }

// Run implements goleak.TestingM.
func (r Sharing) Run() int {
	code := r.M.Run()
	var errs []error
	for _, s := range shared.all {
		if err := s.end(); err != nil {
			errs = append(errs, fmt.Errorf("a shared cluster: %w", err))
		}
	}
	if err := errors.Join(append(errs, childrenLeft())...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// childrenLeft returns an error with the processes that this one has started and that run.
func childrenLeft() error {
	paths, _ := filepath.Glob("/proc/[0-9]*/stat") // none where there is no /proc
	var errs []error
	for _, path := range paths {
		data, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		text := string(data) // pid (name) state parent ...
		var state string
		var parent int
		if _, err := fmt.Sscan(text[strings.LastIndexByte(text, ')')+1:], &state, &parent); err == nil && parent == os.Getpid() && state != "Z" {
			errs = append(errs, fmt.Errorf("a process is left: %s", text[:strings.LastIndexByte(text, ')')+1]))
		}
	}
	return errors.Join(errs...)
}
