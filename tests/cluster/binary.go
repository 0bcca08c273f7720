package cluster

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Binary returns the program under test: the one that OSQUEUE_BIN names, else
// one built from this tree, once for each test process.
var Binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("OSQUEUE_BIN"); path != "" {
		return filepath.Abs(path)
	}
	dir, err := os.MkdirTemp("", "osqueue-bin-")
	if err != nil {
		return "", err
	}
	path := filepath.Join(dir, "osqueue")
	build := exec.Command("go", "build", "-o", path, "./cmd/osqueue")
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build osqueue: %w\n%s", err, out)
	}
	return path, nil
})

// Root is the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
