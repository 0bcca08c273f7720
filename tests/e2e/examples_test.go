package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"osqueue/tests/cluster"
)

// Every example of the SDK prints what its comment says, on a cluster of one node.
func TestExamples(t *testing.T) {
	for _, pkg := range []string{"client", "client/worker"} {
		program := filepath.Join(t.TempDir(), "examples.test")
		build := exec.CommandContext(t.Context(), "go", "test", "-c", "-vet=off", "-o", program, ".")
		build.Dir = filepath.Join(cluster.Root(), pkg)
		if out, err := build.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", pkg, err, out)
		}
		names := examples(t, program)
		if len(names) < 4 {
			t.Errorf("%s has %d examples: %q", pkg, len(names), names)
		}
		for _, name := range names {
			t.Run(pkg+"/"+name, func(t *testing.T) {
				nodes, _ := start(t, 1)
				run := exec.CommandContext(bounded(t), program, "-test.v", "-test.run", "^"+name+"$")
				run.Dir = build.Dir
				run.Env = append(os.Environ(), "OSQUEUE_EXAMPLE_SERVERS="+strings.Join(nodes.Servers(), ","))
				out, err := run.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "--- PASS: "+name) {
					t.Errorf("%v\n%s", err, out)
				}
			})
		}
	}
}

// examples returns the names of the examples in a test program.
func examples(t *testing.T, program string) []string {
	t.Helper()
	list := exec.CommandContext(t.Context(), program, "-test.list", "^Example")
	list.Env = append(os.Environ(), "OSQUEUE_EXAMPLE_SERVERS=none")
	out, err := list.Output()
	check(t, err)
	return strings.Fields(string(out))
}
