package compose

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// engine runs docker and compose. Everything that it makes has the project's
// name, and goes with the test.
type engine struct {
	t       *testing.T
	project string
	compose []string // the program, as the Makefile finds it
	files   []string // compose files
	env     []string
}

// commandTimeout bounds each command.
const commandTimeout = 2 * time.Minute

// newEngine skips the test where containers cannot be run.
func newEngine(t *testing.T, files ...string) *engine {
	t.Helper()
	if testing.Short() {
		t.Skip("builds images and runs containers")
	}
	e := &engine{t: t, project: fmt.Sprintf("osqueue-test-%d-%d", os.Getpid(), time.Now().UnixNano()%1e6), files: files}
	if out, err := e.try("docker", "info"); err != nil {
		t.Skipf("no container engine: docker info: %v: %s", err, lastLine(out))
	}
	for _, program := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if _, err := e.try(append(program, "version")...); err == nil {
			e.compose = program
			return e
		}
	}
	t.Skip("no compose: neither docker compose nor docker-compose runs")
	return nil
}

// try runs a command and returns what it printed.
func (e *engine) try(args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), commandTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = cluster.Root()
	cmd.Env = append(os.Environ(), e.env...)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (e *engine) must(args ...string) string {
	e.t.Helper()
	out, err := e.try(args...)
	if err != nil {
		e.t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func (e *engine) composed(args ...string) []string {
	all := append([]string(nil), e.compose...)
	for _, f := range e.files {
		all = append(all, "-f", f)
	}
	return append(append(all, "-p", e.project), args...)
}

// build makes an image from a Dockerfile and the files it copies.
func (e *engine) build(name, dockerfile string, binaries map[string]string) (image string) {
	e.t.Helper()
	dir := e.t.TempDir()
	for to, from := range binaries {
		to = filepath.Join(dir, to)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			e.t.Fatal(err)
		}
		data, err := os.ReadFile(from)
		if err != nil {
			e.t.Fatal(err)
		}
		if err := os.WriteFile(to, data, 0o755); err != nil {
			e.t.Fatal(err)
		}
	}
	image = e.project + "-" + name
	e.t.Cleanup(func() { _, _ = e.try("docker", "image", "rm", "--force", image) })
	e.must("docker", "build", "--quiet", "--tag", image, "--file", dockerfile, dir)
	return image
}

// up starts everything, and has it removed at the end.
func (e *engine) up() {
	e.t.Helper()
	e.t.Cleanup(e.down)
	e.must(e.composed("up", "-d")...)
}

func (e *engine) down() {
	if e.t.Failed() {
		out, _ := e.try(e.composed("logs", "--no-color", "--tail", "60")...)
		e.t.Logf("logs of the containers:\n%s", out)
	}
	if out, err := e.try(e.composed("down", "--volumes", "--remove-orphans", "--timeout", "5")...); err != nil {
		e.t.Errorf("compose down: %v\n%s", err, out)
	}
}

// container is the id of a service's container.
func (e *engine) container(service string) string {
	e.t.Helper()
	return e.must(e.composed("ps", "--quiet", service)...)
}

func lastLine(s string) string { return s[strings.LastIndexByte(s, '\n')+1:] }

// freePorts reserves ports for as long as it takes to name them.
func freePorts(t *testing.T, n int) []int {
	t.Helper()
	ports := make([]int, n)
	for i := range ports {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		ports[i] = l.Addr().(*net.TCPAddr).Port
	}
	return ports
}
