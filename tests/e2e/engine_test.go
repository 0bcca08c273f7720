package e2e

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"osqueue/tests/cluster"
)

// engine runs docker and compose. All of its objects have the project's name, and are removed
// when the test ends.
type engine struct {
	t       *testing.T
	project string
	compose []string // the program, as the Makefile finds it
	files   []string // compose files
	env     []string // what the compose files ask for
}

const (
	// probeTimeout bounds the check whether there is an engine.
	probeTimeout = 15 * time.Second
	// commandTimeout bounds every other command.
	commandTimeout = 2 * time.Minute
)

// newEngine skips the test if containers cannot be run.
func newEngine(t *testing.T, files ...string) *engine {
	t.Helper()
	if testing.Short() {
		t.Skip("builds images and runs containers")
	}
	e := &engine{t: t, project: fmt.Sprintf("osqueue-test-%d-%d", os.Getpid(), time.Now().UnixNano()%1e6), files: files}
	if _, err := e.try(probeTimeout, "docker", "version", "--format", "{{.Server.Version}}"); err != nil {
		t.Skipf("no container engine: %v", err)
	}
	for _, program := range [][]string{{"docker", "compose"}, {"docker-compose"}} {
		if _, err := e.try(probeTimeout, append(program, "version")...); err == nil {
			e.compose = program
			return e
		}
	}
	t.Skip("no compose: neither docker compose nor docker-compose runs")
	return nil
}

// try runs a command in the root of the tree and returns its stdout. The error has its whole
// output.
func (e *engine) try(timeout time.Duration, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Dir = cluster.Root()
	cmd.Env = append(clean(os.Environ()), e.env...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	// A child process that it leaves behind must not keep its output open.
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err,
			strings.TrimSpace(stdout.String()+stderr.String()))
	}
	return strings.TrimSpace(stdout.String()), nil
}

// clean removes the variables that would make a compose file, or a broker, use resources of the
// user.
func clean(environ []string) []string {
	return slices.DeleteFunc(environ, func(entry string) bool {
		for _, prefix := range []string{"OSQUEUE_", "AWS_", "COMPOSE_"} {
			if strings.HasPrefix(entry, prefix) {
				return true
			}
		}
		return false
	})
}

func (e *engine) must(args ...string) string {
	e.t.Helper()
	out, err := e.try(commandTimeout, args...)
	if err != nil {
		e.t.Fatal(err)
	}
	return out
}

func (e *engine) composed(args ...string) []string {
	all := slices.Clone(e.compose)
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
	e.t.Cleanup(func() { _, _ = e.try(commandTimeout, "docker", "image", "rm", "--force", image) })
	e.must("docker", "build", "--quiet", "--tag", image, "--file", dockerfile, dir)
	return image
}

// up starts everything, and removes it at the end of the test.
func (e *engine) up() {
	e.t.Helper()
	e.t.Cleanup(e.down)
	e.must(e.composed("up", "-d")...)
}

func (e *engine) down() {
	if e.t.Failed() {
		out, err := e.try(commandTimeout, e.composed("logs", "--no-color", "--tail", "60")...)
		e.t.Logf("logs of the containers: %v\n%s", err, out)
	}
	if _, err := e.try(commandTimeout, e.composed("down", "--volumes", "--remove-orphans", "--timeout", "5")...); err != nil {
		e.t.Error(err)
	}
}

// container returns the id of a service's container, which may have ended.
func (e *engine) container(service string) string {
	e.t.Helper()
	return e.must(e.composed("ps", "--all", "--quiet", service)...)
}
