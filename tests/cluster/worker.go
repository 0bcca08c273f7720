package cluster

import (
	"path/filepath"
	"strings"
)

// Worker is a process of `osqueue worker`, or a placeholder for one. When it is killed, the
// processes that its commands have started continue to run, as in production: commands of tests
// should be short.
type Worker struct {
	process
	args []string
}

// StartWorker starts a worker process of that name with further arguments, as in
// "--exec", "wc=wc -w". It ends with the test.
func (c *Cluster) StartWorker(name string, args ...string) *Worker {
	c.tb.Helper()
	w := &Worker{
		process: process{cluster: c, Name: name, Dir: filepath.Join(c.dir, "worker-"+name)},
		args:    append([]string{"worker", "--name", name, "--servers", strings.Join(c.Servers(), ",")}, args...),
	}
	c.workers = append(c.workers, w)
	w.Start()
	return w
}

// Start runs the worker again, with the same arguments.
func (w *Worker) Start() {
	w.cluster.tb.Helper()
	w.launch(w.cluster.binary, w.args...)
}
