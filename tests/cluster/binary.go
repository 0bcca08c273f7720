package cluster

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
)

// Binary returns the program under test: the one that OSQUEUE_BIN names, from
// the top of the tree, else one built from this tree, once for each test
// process. The flags are those of `make build`, so that the build cache serves
// both.
var Binary = sync.OnceValues(func() (string, error) {
	if path := os.Getenv("OSQUEUE_BIN"); filepath.IsAbs(path) {
		return path, nil
	} else if path != "" {
		return filepath.Join(Root(), path), nil
	}
	// One place for each tree, and a name of its own while it is built: several
	// test processes may be at it.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("osqueue-test-%x", sha256.Sum256([]byte(Root())))[:32])
	path := filepath.Join(dir, "osqueue")
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-ldflags", "-s -w", "-o", fresh, "./cmd/osqueue")
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build osqueue: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
})

// Root is the top of the source tree.
func Root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Join(filepath.Dir(file), "..", "..")
}
