package clients

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"osqueue/tests/cluster"
)

// language is a client, and how its programs are run.
type language struct {
	name        string
	interpreter string
	client      string // from the top of the tree
	extension   string // of its programs in testdata
	trace       string // a part of the stack trace in its failures
}

var languages = []language{
	{name: "python", interpreter: "python3", client: "clients/python/osqueue.py", extension: ".py", trace: "Traceback (most recent call last)"},
	{name: "js", interpreter: "node", client: "clients/js/osqueue.mjs", extension: ".mjs", trace: "    at "},
}

// eachLanguage runs a test once for each client, all of them at the same time.
func eachLanguage(t *testing.T, test func(t *testing.T, l language)) {
	t.Helper()
	t.Parallel()
	for _, l := range languages {
		t.Run(l.name, func(t *testing.T) {
			t.Parallel()
			l.need(t)
			test(t, l)
		})
	}
}

// share returns the cluster of n nodes that the tests of this client share. Both clients have programs with the same types.
func (l language) share(t *testing.T, n int) *cluster.Cluster {
	t.Helper()
	return cluster.Share(t, cluster.Options{Nodes: n, Prefix: l.name})
}

func (l language) need(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath(l.interpreter); err != nil {
		t.Skipf("the %s client is not tested: %v", l.name, err)
	}
}

// desk returns a directory with the client, and with the programs of testdata.
func (l language) desk(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	files, err := filepath.Glob(filepath.Join("testdata", "*"+l.extension))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, fromRoot(l.client)) {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, filepath.Base(file)), data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// worker is a worker of the test's own, and the jobs that it has begun.
type worker struct {
	*process
	ledger string
}

// workerOf starts the worker of testdata and waits until it is about to claim.
func (l language) workerOf(t *testing.T, c *cluster.Cluster, name string, env ...string) *worker {
	t.Helper()
	dir := l.desk(t)
	w := &worker{ledger: filepath.Join(dir, "ledger")}
	env = append([]string{servers(c), "NAME=" + c.Own(name), "OWN=" + c.Own(""), "LEDGER=" + w.ledger}, env...)
	w.process = start(t, name, dir, env, l.interpreter, "worker"+l.extension)
	eventually(t, name+" to be ready", func() error {
		if !strings.Contains(w.out.String(), "ready") {
			return errNotYet
		}
		return nil
	})
	return w
}

// begun is a line of a ledger.
type begun struct {
	worker, kind, id string
	attempt          int
	token            uint64
}

// begun returns the attempts that the worker has begun so far.
func (w *worker) begun() []begun {
	w.t.Helper()
	data, err := os.ReadFile(w.ledger)
	if os.IsNotExist(err) {
		return nil
	}
	if err != nil {
		w.t.Fatal(err)
	}
	var all []begun
	for line := range strings.Lines(string(data)) {
		f := strings.Fields(line)
		if !strings.HasSuffix(line, "\n") || len(f) != 5 {
			w.t.Fatalf("ledger of %s: %q", w.name, line)
		}
		attempt, err1 := strconv.Atoi(f[3])
		token, err2 := strconv.ParseUint(f[4], 10, 64)
		if err1 != nil || err2 != nil {
			w.t.Fatalf("ledger of %s: %q", w.name, line)
		}
		all = append(all, begun{worker: f[0], kind: f[1], id: f[2], attempt: attempt, token: token})
	}
	return all
}

// mustBegin waits until the worker has begun the job.
func (w *worker) mustBegin(id string) begun {
	w.t.Helper()
	var found begun
	eventually(w.t, w.name+" to begin "+id, func() error {
		for _, b := range w.begun() {
			if b.id == id {
				found = b
				return nil
			}
		}
		return errNotYet
	})
	return found
}
