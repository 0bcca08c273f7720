package cluster

import (
	"crypto/sha256"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
)

// Binary returns the program under test: the one that OSQUEUE_BIN names, relative to the root
// of the tree, or else one built from this tree, once per test process. The flags are those of
// `make build`, so that both use the same build cache.
var Binary = sync.OnceValues(func() (string, error) { return program("OSQUEUE_BIN", "osqueue", buildTag) })

// buildTag is the tag that the Makefile builds with: it leaves out the packages for gRPC of the
// client of GCS.
const buildTag = "disable_grpc_modules"

// FaultBinary returns the program with a wall clock that tests can set: the one that
// OSQUEUE_FAULT_BIN names, or else one built from this tree.
var FaultBinary = sync.OnceValues(func() (string, error) {
	return program("OSQUEUE_FAULT_BIN", "osqueue-faultclock", buildTag+",faultclock")
})

// NextBinary returns the program that knows one feature level more than Binary: the one that
// OSQUEUE_NEXT_BIN names, or else one built from this tree.
var NextBinary = sync.OnceValues(func() (string, error) {
	return program("OSQUEUE_NEXT_BIN", "osqueue-nextlevel", buildTag+",nextlevel")
})

// program returns the program that an environment variable names, relative to the root of the
// tree, or builds it.
func program(env, name, tags string) (string, error) {
	if path := os.Getenv(env); filepath.IsAbs(path) {
		return path, nil
	} else if path != "" {
		return filepath.Join(Root(), path), nil
	}
	return buildProgram(name, tags)
}

// buildProgram builds the program with the tags under that name.
func buildProgram(name, tags string) (string, error) {
	// Each tree has one path, and a build in progress has a name of its own: several test
	// processes may build at the same time.
	dir := filepath.Join(os.TempDir(), fmt.Sprintf("osqueue-test-%x", sha256.Sum256([]byte(Root())))[:32])
	path := filepath.Join(dir, name)
	fresh := fmt.Sprintf("%s.%d", path, os.Getpid())
	build := exec.Command("go", "build", "-buildvcs=false", "-trimpath", "-tags", tags, "-ldflags", "-s -w", "-o", fresh, "./cmd/osqueue")
	build.Dir = Root()
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build osqueue: %w\n%s", err, out)
	}
	return path, os.Rename(fresh, path)
}

// Root returns the top of the source tree: the closest directory above the working directory that
// has cmd/osqueue. The path of a source file would not do, since -trimpath removes it.
func Root() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(fmt.Sprintf("the working directory: %v", err))
	}
	for at := dir; ; at = filepath.Dir(at) {
		if _, err := os.Stat(filepath.Join(at, "cmd", "osqueue", "main.go")); err == nil {
			return at
		}
		if at == filepath.Dir(at) {
			panic(fmt.Sprintf("%s is not inside the source tree", dir))
		}
	}
}
